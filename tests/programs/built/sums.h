#pragma once
extern "C" float sum_of_squares(const float *x, int n);
