// Device malloc and free are built in: there is nothing to declare.
#pragma once
