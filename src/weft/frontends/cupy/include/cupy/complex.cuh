// complex<T> of CuPy's kernels. Numbers are converted to it, so it can be mixed with them.
#pragma once

template <typename T> class __align__(2 * sizeof(T)) complex {
    T re, im;

public:
    typedef T value_type;
    __host__ __device__ complex(T real = T(), T imag = T()) : re(real), im(imag) {}
    template <typename U>
    __host__ __device__ complex(const complex<U>& z) : re(T(z.real())), im(T(z.imag())) {}

    __host__ __device__ T real() const { return re; }
    __host__ __device__ T imag() const { return im; }
    __host__ __device__ void real(T value) { re = value; }
    __host__ __device__ void imag(T value) { im = value; }

    __host__ __device__ complex operator+() const { return *this; }
    __host__ __device__ complex operator-() const { return complex(-re, -im); }
    friend __host__ __device__ complex operator+(complex a, complex b) {
        return complex(a.re + b.re, a.im + b.im);
    }
    friend __host__ __device__ complex operator-(complex a, complex b) {
        return complex(a.re - b.re, a.im - b.im);
    }
    friend __host__ __device__ complex operator*(complex a, complex b) {
        return complex(a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re);
    }
    friend __host__ __device__ complex operator/(complex a, complex b) {
        // Scaled by the larger part, so that squares do not overflow.
        if (fabs(b.re) >= fabs(b.im)) {
            const T r = b.im / b.re, d = b.re + b.im * r;
            return complex((a.re + a.im * r) / d, (a.im - a.re * r) / d);
        }
        const T r = b.re / b.im, d = b.re * r + b.im;
        return complex((a.re * r + a.im) / d, (a.im * r - a.re) / d);
    }
    friend __host__ __device__ bool operator==(complex a, complex b) {
        return a.re == b.re && a.im == b.im;
    }
    friend __host__ __device__ bool operator!=(complex a, complex b) { return !(a == b); }
    __host__ __device__ complex& operator+=(complex b) { return *this = *this + b; }
    __host__ __device__ complex& operator-=(complex b) { return *this = *this - b; }
    __host__ __device__ complex& operator*=(complex b) { return *this = *this * b; }
    __host__ __device__ complex& operator/=(complex b) { return *this = *this / b; }
};

template <typename T> __device__ T real(complex<T> z) { return z.real(); }
template <typename T> __device__ T imag(complex<T> z) { return z.imag(); }
template <typename T> __device__ T abs(complex<T> z) { return hypot(z.real(), z.imag()); }
template <typename T> __device__ T arg(complex<T> z) { return atan2(z.imag(), z.real()); }
template <typename T> __device__ T norm(complex<T> z) {
    return z.real() * z.real() + z.imag() * z.imag();
}
template <typename T> __device__ complex<T> conj(complex<T> z) {
    return complex<T>(z.real(), -z.imag());
}
template <typename T> __device__ complex<T> polar(T size, T angle) {
    return complex<T>(size * cos(angle), size * sin(angle));
}
template <typename T> __device__ complex<T> exp(complex<T> z) {
    return polar(exp(z.real()), z.imag());
}
template <typename T> __device__ complex<T> log(complex<T> z) {
    return complex<T>(log(abs(z)), arg(z));
}
template <typename T> __device__ complex<T> sqrt(complex<T> z) {
    const T size = abs(z), re = sqrt((size + z.real()) / 2), im = sqrt((size - z.real()) / 2);
    return complex<T>(re, copysign(im, z.imag()));
}
template <typename T> __device__ complex<T> pow(complex<T> z, complex<T> w) {
    return z == complex<T>() ? (w == complex<T>() ? complex<T>(1) : z) : exp(w * log(z));
}
template <typename T> __device__ complex<T> sin(complex<T> z) {
    return complex<T>(sin(z.real()) * cosh(z.imag()), cos(z.real()) * sinh(z.imag()));
}
template <typename T> __device__ complex<T> cos(complex<T> z) {
    return complex<T>(cos(z.real()) * cosh(z.imag()), -sin(z.real()) * sinh(z.imag()));
}
template <typename T> __device__ bool isnan(complex<T> z) {
    return isnan(z.real()) || isnan(z.imag());
}
