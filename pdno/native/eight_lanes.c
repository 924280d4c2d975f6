/* The operators with 8 lanes, for small batches that leave half of 16 lanes empty. */
#if defined(__AVX512F__) && !defined(LANES)
#define LANES 8
#define EIGHT_LANES
#include "kernels.c"
#endif
