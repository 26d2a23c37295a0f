// B = X W - offset for dense samples of float32, on tensor cores: for more than a few components, where products.cu is bound by
// arithmetic. Each sample is read once, and its sums do not depend on the others.
//
// A block has ROWS samples, a warp 32 of them, and all components. Blocks take stages of FEATURES features through shared
// memory, DEPTH - 1 ahead, also from samples to samples. There, 16 features of a sample, or of a component, lie beside each
// other, and every other 16 features have neighbouring rows exchanged: so threads never wait for each other's banks.
//
// Constants: ROWS (32 for each warp), TILES (of eight components), VEC (numbers of a copy), DEPTH, THREADS, BLOCKS.

#include "_tensor.cuh"

#define FEATURES 32
#define COMPONENTS (8 * TILES)
#define STAGE ((ROWS + COMPONENTS) * FEATURES)  // numbers
#ifdef __CUDACC__
#define OWN 32  // samples of a warp
#else
#define OWN ROWS
#endif

// Where a feature of a stage is, of a sample or a component, if there are so many of those.
INLINE int place(int count, int row, int feature) {
    const int half = feature / SIDE;
    return (half * count + (row ^ half)) * SIDE + feature % SIDE;
}

// The sums of the samples of a warp.
struct Sums {
#ifdef __CUDACC__
    float of[2][TILES][4];

    INLINE void clear() {
#pragma unroll
        for (int i = 0; i < 8 * TILES; i++) of[i / (4 * TILES)][i / 4 % TILES][i % 4] = 0.0f;
    }

    // Add 16 features; x and w are where those of the first sample and component are, in pairs that are exchanged if odd.
    // Of four features that a thread loads at once, two belong to each step of eight terms.
    INLINE void add(const float *x, const float *w, int is_odd) {
        const int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
        Left left[2];
#pragma unroll
        for (int half = 0; half < 4; half++) {
            const Four own = four(x + ((8 * half + g) ^ is_odd) * SIDE + 4 * t);
#pragma unroll
            for (int i = 0; i < 4; i++) left[half / 2].set(i / 2, half % 2 + i % 2 * 2, own.v[i]);
        }
#pragma unroll
        for (int tile = 0; tile < TILES; tile++) {
            const Four own = four(w + ((8 * tile + g) ^ is_odd) * SIDE + 4 * t);
            Right right;
#pragma unroll
            for (int i = 0; i < 4; i++) right.set(i / 2, i % 2, own.v[i]);
            add_products(of[0][tile], left[0], right);
            add_products(of[1][tile], left[1], right);
        }
    }

    // Call a function with sample, component and sum.
    template <class Function>
    INLINE void each(Function function) const {
        const int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
#pragma unroll
        for (int i = 0; i < 8 * TILES; i++) {
            const int half = i / (4 * TILES), tile = i / 4 % TILES, q = i % 4;
            function(16 * half + q / 2 * 8 + g, 8 * tile + 2 * t + q % 2, of[half][tile][q]);
        }
    }
#else
    float of[ROWS][COMPONENTS];
    void clear() { memset(of, 0, sizeof of); }
    void add(const float *x, const float *w, int is_odd) {
        for (int i = 0; i < ROWS * COMPONENTS; i++)
            for (int f = 0; f < SIDE; f++)
                of[i / COMPONENTS][i % COMPONENTS] +=
                    x[(i / COMPONENTS ^ is_odd) * SIDE + f] * w[(i % COMPONENTS ^ is_odd) * SIDE + f];
    }
    template <class Function>
    void each(Function function) const {
        for (int i = 0; i < ROWS * COMPONENTS; i++) function(i / COMPONENTS, i % COMPONENTS, of[i / COMPONENTS][i % COMPONENTS]);
    }
#endif
};

// Put columns of W, shape (m, r), into stages as they are in shared memory, with zeros where there are no more.
extern "C" __global__ void __launch_bounds__(THREADS) lay_out(
    const float *__restrict__ W, int m, int r, int first, int count, float *__restrict__ basis
) {
    const int entries = (m + FEATURES - 1) / FEATURES * FEATURES * COMPONENTS;
    for (int i = blockIdx.x * THREADS + threadIdx.x; i < entries; i += gridDim.x * THREADS) {
        const int f = i / COMPONENTS, k = i % COMPONENTS;
        basis[f / FEATURES * FEATURES * COMPONENTS + place(COMPONENTS, k, f % FEATURES)] =
            f < m && k < count ? W[(long long)f * r + first + k] : 0.0f;
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS) tensor_products(
    const float *__restrict__ X,  // shape (n, m)
    long long n, int m,
    const float *__restrict__ basis,  // as laid out
    int r, int first, int count,  // columns of B
    const float *__restrict__ offset,  // shape (r,), or none
    float *__restrict__ B  // shape (n, r)
) {
    DYNAMIC_SHARED(float, stages);  // shape (DEPTH, STAGE): samples, then components
    const int n_stages = (m + FEATURES - 1) / FEATURES, warp = threadIdx.x / WARP;
    const long long n_blocks = (n + ROWS - 1) / ROWS;
    // What comes next: features from `from` on of the samples from `coming` on.
    long long coming = (long long)blockIdx.x * ROWS;
    int from = 0, slot = 0;
    auto fetch = [&](int to) {
        float *x = stages + to * STAGE, *w = x + ROWS * FEATURES;
        if (coming < n) {
            const int left = n - coming < ROWS ? (int)(n - coming) : ROWS;
            const float *source = X + coming * m + from;
#pragma unroll
            FOR_PACKS(row, pack, ROWS, FEATURES / VEC) {
                const bool is_wanted = row < left && from + pack * VEC < m;
                const float *own = source + (long long)row * m + pack * VEC;
                copy_later<4 * VEC>(x + place(ROWS, row, pack * VEC), is_wanted ? own : X, is_wanted);
            }
            const float *part = basis + (long long)from * COMPONENTS;
#pragma unroll
            for (int i = threadIdx.x; i < COMPONENTS * FEATURES / 4; i += THREADS) copy_later<16>(w + 4 * i, part + 4 * i, true);
        }
        end_copies();
        from += FEATURES;
        if (from >= m) {  // the next samples
            from = 0;
            coming += (long long)gridDim.x * ROWS;
        }
    };
    for (int i = 0; i < DEPTH - 1; i++) fetch(i);
    for (long long block = blockIdx.x; block < n_blocks; block += gridDim.x) {
        Sums sums;
        sums.clear();
#pragma unroll 1
        for (int stage = 0; stage < n_stages; stage++) {
            wait_copies<DEPTH - 2>();
            __syncthreads();  // all have arrived, and nobody needs the last stage any more
            fetch(slot == 0 ? DEPTH - 1 : slot - 1);
            const float *x = stages + slot * STAGE, *w = x + ROWS * FEATURES;
            slot = slot == DEPTH - 1 ? 0 : slot + 1;
#pragma unroll
            for (int half = 0; half < FEATURES / SIDE; half++)
                sums.add(x + (half * ROWS + warp * OWN) * SIDE, w + half * COMPONENTS * SIDE, half);
        }
        const long long top = block * ROWS + warp * OWN;
        sums.each([&](int row, int k, float sum) {
            if (top + row < n && k < count) B[(top + row) * r + first + k] = sum - (offset ? offset[first + k] : 0.0f);
        });
    }
    wait_copies<0>();
}
