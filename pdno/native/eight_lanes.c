/* The operators once more with 8 lanes, where the processor has 16: small batches and few channels
 * leave half of the wide vectors empty. */
#if defined(__AVX512F__) && !defined(LANES)
#define LANES 8
#define EIGHT_LANES
#include "kernels.c"
#endif
