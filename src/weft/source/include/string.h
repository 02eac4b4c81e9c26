// Device memcpy and memset are built in: there is nothing to declare.
#pragma once
