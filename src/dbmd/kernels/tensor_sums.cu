// X H' of groups of samples of float32, on tensor cores: for more than a few components, where sums.cu is bound by arithmetic.
// As there, a group is summed up in an order of its own, and samples are read once; H H' comes from other blocks.
//
// A block has FEATURES features of a group, a warp 32 of them, and all components. Stages of SAMPLES samples and their
// memberships go through shared memory, DEPTH - 1 ahead.
//
// Constants: FEATURES (32 for each warp), TILES (of eight components), VEC (numbers of a copy), SAMPLES (eight or sixteen),
// DEPTH, GROUP (a multiple of SAMPLES), PAIRS (see _tensor_gram.cuh), THREADS, BLOCKS, REAL (float).

#include "_tensor.cuh"
#ifdef __CUDACC__
#include "_tensor_gram.cuh"
#else
#include "_gram.cuh"
#endif

#define COMPONENTS (8 * TILES)
#define PITCH (FEATURES + 8)  // so that threads do not wait for each other's banks
#ifdef __CUDACC__
#define OWN 32  // features of a warp
#else
#define OWN FEATURES
#endif

// Memberships of a stage.
struct Memberships {
    const float *h;         // shared, rows of r numbers
    const double *weights;  // of its samples, or none
    int r, columns, rows;

    // Times the weight; beside the memberships of a sample there is a one if there are norms.
    INLINE float at(int sample, int k) const {
        float value = k < r ? h[sample * r + k] : k < columns ? 1.0f : 0.0f;
        if (weights) value = value * (sample < rows ? weights[sample] : 0.0);
        return value;
    }
};

#ifdef __CUDACC__

#define RIGHT (TILES * 32 * 8)  // numbers: for each tile and lane four high parts, and then all the low ones

// Write the parts of memberships from component `first` on as threads need them; all threads of a block take part.
INLINE void lay_out(const Memberships &memberships, int first, float *right) {
#pragma unroll 1
    for (int i = threadIdx.x; i < TILES * 32; i += THREADS) {
        const int g = i % 32 / 4, t = i % 4, k = first + i / 32 * 8 + g;
        Four high, low;
#pragma unroll
        for (int q = 0; q < 4; q++) {
            const Parts parts = parts_of(SAMPLES > 4 * q ? memberships.at(4 * q + t, k) : 0.0f);
            high.v[q] = parts.high;
            low.v[q] = parts.low;
        }
        *reinterpret_cast<Four *>(right + 4 * i) = high;
        *reinterpret_cast<Four *>(right + 4 * (TILES * 32 + i)) = low;
    }
}

// The sums of the features of a warp.
struct Sums {
    float of[2][TILES][4];

    INLINE void clear() {
#pragma unroll
        for (int i = 0; i < 8 * TILES; i++) of[i / (4 * TILES)][i / 4 % TILES][i % 4] = 0.0f;
    }

    // Add a stage; x is where the first feature of its first sample is. Of four features that a thread loads at once, two
    // belong to each of the two products.
    INLINE void add(const float *x, const float *right) {
        const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
        Left left[2];
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const Four own = SAMPLES > 4 * i ? four(x + (4 * i + t) * PITCH + 4 * g) : Four{};
#pragma unroll
            for (int f = 0; f < 4; f++) left[f / 2].set(i / 2, i % 2 * 2 + f % 2, own.v[f]);
        }
#pragma unroll
        for (int tile = 0; tile < TILES; tile++) {
            const Four high = four(right + 4 * (tile * 32 + lane)), low = four(right + 4 * ((TILES + tile) * 32 + lane));
            const Right both = {{{high.v[0], high.v[1]}, {high.v[2], high.v[3]}}, {{low.v[0], low.v[1]}, {low.v[2], low.v[3]}}};
            add_products(of[0][tile], left[0], both);
            add_products(of[1][tile], left[1], both);
        }
    }

    // Call a function with the first of four features, component and sums.
    template <class Function>
    INLINE void each(Function function) const {
        const int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
#pragma unroll
        for (int i = 0; i < 2 * TILES; i++) {
            const int tile = i / 2, q = i % 2;
            function(4 * g, 8 * tile + 2 * t + q, Four{of[0][tile][q], of[0][tile][2 + q], of[1][tile][q], of[1][tile][2 + q]});
        }
    }
};

#else

#define RIGHT (COMPONENTS * SAMPLES)

static void lay_out(const Memberships &memberships, int first, float *right) {
    for (int i = 0; i < RIGHT; i++) right[i] = memberships.at(i / COMPONENTS, first + i % COMPONENTS);
}

struct Sums {
    float of[FEATURES][COMPONENTS];
    void clear() { memset(of, 0, sizeof of); }
    void add(const float *x, const float *right) {
        for (int i = 0; i < SAMPLES; i++)
            for (int f = 0; f < FEATURES; f++)
                for (int k = 0; k < COMPONENTS; k++) of[f][k] += x[i * PITCH + f] * right[i * COMPONENTS + k];
    }
    template <class Function>
    void each(Function function) const {
        for (int f = 0; f < FEATURES; f += 4)
            for (int k = 0; k < COMPONENTS; k++) function(f, k, Four{of[f][k], of[f + 1][k], of[f + 2][k], of[f + 3][k]});
    }
};

#endif

// The sums of FEATURES features, from `start` on, with components from `first` on, over a group of samples.
INLINE void tile_sums(
    const float *__restrict__ X, int rows, int m,  // samples of the group
    const float *__restrict__ H, const double *__restrict__ weights, int r, int norms,  // their memberships and weights
    int start, int first,
    float *__restrict__ parts,  // shape (r + 2 norms, m)
    float *right,  // shared, shape (2, RIGHT)
    float *stages  // shared, shape (DEPTH, SAMPLES, PITCH + r)
) {
    const int columns = r + norms, size = SAMPLES * (PITCH + r), end = (rows + SAMPLES - 1) / SAMPLES * SAMPLES;
    const bool squares = norms && first <= r && r < first + COMPONENTS;
    auto fetch = [&](int top, int slot) {
        float *x = stages + slot * size, *h = x + SAMPLES * PITCH;
        if (top < end) {
            const float *source = X + (long long)top * m + start;
#pragma unroll
            FOR_PACKS(row, pack, SAMPLES, FEATURES / VEC) {
                const bool is_wanted = top + row < rows && start + pack * VEC < m;
                const float *own = source + (long long)row * m + pack * VEC;
                copy_later<4 * VEC>(x + row * PITCH + pack * VEC, is_wanted ? own : X, is_wanted);
            }
            // Memberships lie one after the other, there as here: a multiple of 16 bytes, but for the last sample of all.
            const float *own = H + (long long)top * r;
            const int numbers = (rows - top) * r;
            for (int i = 4 * threadIdx.x; i < SAMPLES * r; i += 4 * THREADS) {
                if (i + 4 <= numbers || i >= numbers) {
                    copy_later<16>(h + i, i < numbers ? own + i : H, i < numbers);
                } else {
                    for (int q = i; q < i + 4; q++) copy_later<4>(h + q, q < numbers ? own + q : H, q < numbers);
                }
            }
        }
        end_copies();
    };
    auto memberships = [&](int top, int slot) {
        return Memberships{stages + slot * size + SAMPLES * PITCH, weights ? weights + top : 0, r, columns, rows - top};
    };
    __syncthreads();  // nobody needs what is in shared memory any more
    for (int i = 0; i < DEPTH - 1; i++) fetch(i * SAMPLES, i);
    wait_copies<DEPTH - 2>();
    __syncthreads();
    lay_out(memberships(0, 0), first, right);

    Sums sums;
    sums.clear();
    float square[FEATURES / THREADS] = {};  // a thread has a feature
    int slot = 0;
#pragma unroll 1
    for (int top = 0; top < end; top += SAMPLES) {
        const int next = slot == DEPTH - 1 ? 0 : slot + 1, is_odd = top / SAMPLES % 2;
        wait_copies<DEPTH - 3>();
        __syncthreads();  // this stage and the next have arrived, and nobody needs the last one any more
        fetch(top + (DEPTH - 1) * SAMPLES, slot == 0 ? DEPTH - 1 : slot - 1);
        if (top + SAMPLES < end) lay_out(memberships(top + SAMPLES, next), first, right + (1 - is_odd) * RIGHT);
        const float *x = stages + slot * size;
        sums.add(x + threadIdx.x / WARP * OWN, right + is_odd * RIGHT);
        if (squares) {
            const Memberships own = memberships(top, slot);
            for (int c = 0, f = threadIdx.x; f < FEATURES; c++, f += THREADS)
                for (int i = 0; i < SAMPLES; i++) square[c] += x[i * PITCH + f] * x[i * PITCH + f] * own.at(i, r);
        }
        slot = next;
    }
    const int feature = start + threadIdx.x / WARP * OWN;
    sums.each([&](int f, int k, const Four &four) {
        if (first + k >= columns) return;
        float *to = parts + (long long)(first + k) * m + feature + f;
        if (VEC == 4) {
            if (feature + f < m) *reinterpret_cast<Four *>(to) = four;
        } else {
            for (int i = 0; i < 4; i++)
                if (feature + f + i < m) to[i] = four.v[i];
        }
    });
    if (squares)
        for (int c = 0, f = threadIdx.x; f < FEATURES; c++, f += THREADS)
            if (start + f < m) parts[(long long)(r + 1) * m + start + f] = square[c];
}

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS) tensor_sums(
    const float *__restrict__ X,  // shape (n, m)
    const float *__restrict__ H,  // shape (n, r)
    const double *__restrict__ weights,  // shape (n,), or none
    long long n, int m, int r, int norms,
    float *__restrict__ parts,  // shape (groups, r + 2 norms, m)
    double *__restrict__ grams,  // shape (groups, r + 1, r + 1)
    int room  // numbers in shared memory
) {
    DYNAMIC_SHARED(float, shared);
    const int tiles = (m + FEATURES - 1) / FEATURES, splits = (r + norms + COMPONENTS - 1) / COMPONENTS, batches = n_batches(r);
    const long long groups = (n + GROUP - 1) / GROUP, n_tiles = groups * tiles * splits, units = n_tiles + groups * batches;
    for (long long unit = blockIdx.x; unit < units; unit += gridDim.x) {
        if (unit < n_tiles) {
            const long long group = unit / (tiles * splits), top = group * GROUP;
            const int number = unit % (tiles * splits), rows = n - top < GROUP ? (int)(n - top) : GROUP;
            tile_sums(X + top * m, rows, m, H + top * r, weights ? weights + top : 0, r, norms, number / splits * FEATURES,
                      number % splits * COMPONENTS, parts + group * (r + 2 * norms) * m, shared, shared + 2 * RIGHT);
        } else {
            const long long rest = unit - n_tiles;
            __syncthreads();
            gram_of_group(H, weights, n, r, rest / batches, rest % batches, grams, shared, room);
        }
    }
}
