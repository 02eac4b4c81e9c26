"""Conversions of half precision, which LLVM calls by name on x86 CPUs without F16C.

They compute on integers, so that they call nothing themselves. LLVM passes a `half` here as the
callers expect it.
"""

from __future__ import annotations

NAMES = ("__extendhfsf2", "__truncsfhf2", "__truncdfhf2")

TEXT = """
define float @__extendhfsf2(half %x) {
  %h = bitcast half %x to i16
  %w = zext i16 %h to i32
  %s = and i32 %w, 32768
  %sign = shl i32 %s, 16
  %a = and i32 %w, 32767
  %mantissa = shl i32 %a, 13
  %normal = add i32 %mantissa, 939524096
  %isnan = icmp ugt i32 %a, 31744
  %quiet = select i1 %isnan, i32 2143289344, i32 2139095040
  %special = or i32 %mantissa, %quiet
  %isspecial = icmp uge i32 %a, 31744
  %n = uitofp i32 %a to float
  %tiny = fmul float %n, 0x3E70000000000000
  %tinybits = bitcast float %tiny to i32
  %istiny = icmp ult i32 %a, 1024
  %r0 = select i1 %isspecial, i32 %special, i32 %normal
  %r1 = select i1 %istiny, i32 %tinybits, i32 %r0
  %r2 = or i32 %r1, %sign
  %r = bitcast i32 %r2 to float
  ret float %r
}
define half @__truncsfhf2(float %x) {
  %w = bitcast float %x to i32
  %s = lshr i32 %w, 16
  %sign = and i32 %s, 32768
  %a = and i32 %w, 2147483647
  %m = lshr i32 %a, 13
  %odd = and i32 %m, 1
  %up = add i32 %a, 4095
  %even = add i32 %up, %odd
  %shifted = lshr i32 %even, 13
  %normal = sub i32 %shifted, 114688
  %payload = and i32 %m, 1023
  %nan = or i32 %payload, 32256
  %isnan = icmp ugt i32 %a, 2139095040
  %isbig = icmp uge i32 %a, 1199570944
  %istiny = icmp ult i32 %a, 947912704
  %af = bitcast i32 %a to float
  %moved = fadd float %af, 5.000000e-01
  %movedbits = bitcast float %moved to i32
  %tiny = sub i32 %movedbits, 1056964608
  %r0 = select i1 %istiny, i32 %tiny, i32 %normal
  %r1 = select i1 %isbig, i32 31744, i32 %r0
  %r2 = select i1 %isnan, i32 %nan, i32 %r1
  %r3 = or i32 %r2, %sign
  %r4 = trunc i32 %r3 to i16
  %r = bitcast i16 %r4 to half
  ret half %r
}
define half @__truncdfhf2(double %x) {
  ; Round to odd first: the second rounding then gives what one rounding of %x would.
  %w = bitcast double %x to i64
  %low = and i64 %w, 536870911
  %high = and i64 %w, -536870912
  %inexact = icmp ne i64 %low, 0
  %odd = or i64 %high, 536870912
  %o = select i1 %inexact, i64 %odd, i64 %high
  %od = bitcast i64 %o to double
  %f = fptrunc double %od to float
  %r = call half @__truncsfhf2(float %f)
  ret half %r
}
"""
