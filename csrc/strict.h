/* Arithmetic under the standard's rules, whatever flags a host compiles with. Include it after the
 * system's headers and before any function that handles floating point. */
#ifndef GLPCORE_STRICT_H
#define GLPCORE_STRICT_H

/* A host may build these sources with -ffast-math. Then comparisons with NaN and 0 may be folded
 * away, so whatever decides looks at bits; and a compiler may take it as known that no operation
 * yields a NaN, and fold the look at the bits as well, so the arithmetic here, and in the file that
 * includes this one, is put back under the standard's rules. */
#if defined(__FAST_MATH__) || defined(_M_FP_FAST)
#  if defined(__clang__) || defined(_MSC_VER)
#    pragma float_control(precise, on)
#  elif defined(__GNUC__)
#    pragma GCC optimize("no-fast-math")
#  endif
#endif

#endif
