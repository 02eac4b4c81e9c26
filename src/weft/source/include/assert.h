// Device assert is built in: there is nothing to declare.
#pragma once
