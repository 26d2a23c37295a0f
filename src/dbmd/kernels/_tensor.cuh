// Products of float32 matrices on tensor cores that are as precise as without them.
//
// A number is the sum of a high part of eleven bits and a low part, which tensor cores take almost without loss. Of the four
// products of parts that of the low ones is below the rounding of float32, and is left out. Sums within tensor cores are
// truncated, so they are over SIDE terms only, small ones first, and are added up outside.

#define SIDE 16

struct alignas(16) Four {
    float v[4];
};

INLINE Four four(const float *from) { return *reinterpret_cast<const Four *>(from); }

#ifdef __CUDACC__

struct Parts {
    float high, low;
};

INLINE Parts parts_of(float x) {  // to nearest: the low part has either sign
    const float high = __fmaf_rn(-8192.0f, x, __fmul_rn(8193.0f, x));  // a compiler must not put it another way
    return {high, x - high};
}

// One side of a product: two steps of eight terms, of which a thread has so many numbers each.
template <int COUNT>
struct Terms {
    float high[2][COUNT], low[2][COUNT];
    INLINE void set(int step, int i, float x) {
        const Parts parts = parts_of(x);
        high[step][i] = parts.high;
        low[step][i] = parts.low;
    }
};
using Left = Terms<4>;   // 16 rows
using Right = Terms<2>;  // eight columns

// Add the products of SIDE terms to four sums.
INLINE void add_products(float (&sums)[4], const Left &left, const Right &right) {
    const float zero[4] = {};
    float total[4];
    tensor_multiply(total, left.low[0], right.high[0], zero);
    tensor_multiply(total, left.low[1], right.high[1], total);
    tensor_multiply(total, left.high[0], right.low[0], total);
    tensor_multiply(total, left.high[1], right.low[1], total);
    tensor_multiply(total, left.high[0], right.high[0], total);
    tensor_multiply(total, left.high[1], right.high[1], total);
#pragma unroll
    for (int i = 0; i < 4; i++) sums[i] += total[i];
}

// Rows of packs of numbers that a block copies: each thread has one column, and every so many rows.
#define FOR_PACKS(row, pack, rows, packs) \
    for (int pack = threadIdx.x % (packs), row = threadIdx.x / (packs); row < (rows); row += THREADS / (packs))

#else
#define FOR_PACKS(row, pack, rows, packs) \
    for (int row = 0; row < (rows); row++)  \
        for (int pack = 0; pack < (packs); pack++)
#endif
