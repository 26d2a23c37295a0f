// The H-step without a prior for few components, R: a thread for each sample.

#include "_h_step.cuh"

#define TRIANGLE(n) ((n) * ((n) + 1) / 2)

// Matrices of all samples, which come with the arguments: an operand in constant memory costs nothing.
struct Matrices {
    double M[TRIANGLE(R)];  // Q + 1 1', the lower triangle by rows
    double N[TRIANGLE(R)];  // its inverse
    double N_ones[R];
    double N_sum;
    double weight;  // of a logarithm without a prior, for solve_inside
};

#define AT(i, j) (TRIANGLE(i) + (j))
#define SYMMETRIC(A, i, j) ((i) > (j) ? (A)[AT(i, j)] : (A)[AT(j, i)])
#define TILE (512 / (int)sizeof(REAL))  // samples that a warp loads at a time: a thread that is done takes the next
#define WIDE (R | 1)                    // odd, so that threads do not wait for each other's banks

// Memberships on a face and multipliers elsewhere go to y. Returns false if the face is near singular.
INLINE bool try_face(const Matrices &given, const REAL *b, double unit, unsigned face, double *y) {
    double A[TRIANGLE(R)], p[R], q[R];
    bool is_regular = true;
    double pq = -1.0, qq = 0.0;
#pragma unroll
    for (int i = 0; i < TRIANGLE(R); i++) A[i] = given.M[i];
#pragma unroll
    for (int i = 0; i < R; i++) {
        p[i] = b[i] * unit;
        q[i] = 1.0;
    }
    // Elimination on all components. One over the pivot is zero for those that are not on the face: so they change
    // nothing, and their part of the solution is zero.
#pragma unroll
    for (int k = 0; k < R; k++) {
        const bool is_inside = face >> k & 1;
        const double pivot = A[AT(k, k)];
        is_regular = is_regular && (!is_inside || pivot * REGULAR >= 1.0);
        const double inverse = is_inside ? 1.0 / pivot : 0.0;
#pragma unroll
        for (int i = R - 1; i > k; i--) {
            const double factor = A[AT(i, k)] * inverse;
#pragma unroll
            for (int j = k + 1; j <= i; j++) A[AT(i, j)] -= factor * A[AT(j, k)];
            p[i] -= factor * p[k];
            q[i] -= factor * q[k];
            A[AT(i, k)] = factor;
        }
        const double unscaled = q[k];
        p[k] *= inverse;
        q[k] *= inverse;
        pq += unscaled * p[k];
        qq += unscaled * q[k];
    }
    const double nu = pq / qq;
#pragma unroll
    for (int k = R - 1; k >= 0; k--) {
        p[k] -= nu * q[k];
#pragma unroll
        for (int i = k + 1; i < R; i++) p[k] -= A[AT(i, k)] * p[i];
    }
#pragma unroll
    for (int i = 0; i < R; i++) {
        double z = nu - b[i] * unit;
#pragma unroll
        for (int k = 0; k < R; k++) z += SYMMETRIC(given.M, i, k) * p[k];
        y[i] = face >> i & 1 ? p[i] : z;
    }
    return is_regular;
}

// Where a sample starts without memberships: the positive ones of the solution without h >= 0, or the nearest corner.
INLINE unsigned first_face(const Matrices &given, bool has_inverse, const REAL *b, double unit) {
    unsigned face = 0;
    if (has_inverse) {
        double y[R], total = -1.0;
#pragma unroll
        for (int i = 0; i < R; i++) {
            y[i] = 0.0;
#pragma unroll
            for (int k = 0; k < R; k++) y[i] += SYMMETRIC(given.N, i, k) * (b[k] * unit);
            total += y[i];
        }
        const double nu = total / given.N_sum;
#pragma unroll
        for (int i = 0; i < R; i++) face |= (unsigned)(y[i] - nu * given.N_ones[i] >= -SLACK) << i;
    } else {
        double best = 0.0;
#pragma unroll
        for (int i = 0; i < R; i++) {
            const double value = b[i] * unit - 0.5 * given.M[AT(i, i)];
            if (i == 0 || value > best) {
                best = value;
                face = 1u << i;
            }
        }
    }
    return face ? face : (1u << R) - 1;
}

extern "C" __global__ void __launch_bounds__(THREADS)
solve_few(const REAL *__restrict__ Bt, const REAL *Ht0, REAL *out, long long n, double unit, int has_inverse,
          Matrices given, double per_noise, double *kept, unsigned long long *n_marked) {
    SHARED REAL all_rows[THREADS / WARP][TILE * WIDE];
    SHARED unsigned short all_faces[THREADS / WARP][TILE];
    const int lane = lane_of_warp(), warp = threadIdx.x / WARP;
    // What solve_inside needs, Q and weights, and add_covariances: no copy from the host has to be waited for.
    if (blockIdx.x == 0 && threadIdx.x == 0)
        for (int i = 0; i < R; i++) {
            for (int j = 0; j < R; j++) {
                const double entry = SYMMETRIC(given.M, i, j) - 1.0;
                kept[i * R + j] = entry;
                kept[R * (R + 1) + i * R + j] = entry * per_noise;
            }
            kept[R * R + i] = given.weight;
        }
    REAL *rows = all_rows[warp];
    unsigned short *faces = all_faces[warp];
    const long long n_tiles = (n + TILE - 1) / TILE;
    for (long long tile = (long long)blockIdx.x * (THREADS / WARP) + warp; tile < n_tiles;
         tile += (long long)gridDim.x * (THREADS / WARP)) {
        const long long first = tile * TILE;
        const int count = n - first < TILE ? (int)(n - first) : TILE;
        for (int e = lane; e < count * R; e += WARP) rows[e / R * WIDE + e % R] = Bt[first * R + e];
        __syncwarp();
        for (int t = lane; t < count; t += WARP) {
            unsigned face = 0;
            if (Ht0)
                for (int k = 0; k < R; k++) face |= (unsigned)(Ht0[(first + t) * R + k] > (REAL)POSITIVE) << k;
            faces[t] = face ? face : first_face(given, has_inverse, rows + t * WIDE, unit);
        }
        __syncwarp();

        // Each thread has a sample of the tile, and takes the next one when it is done.
        int mine = lane, next = WARP, tries = 0, fewest = R + 1, patience = PATIENCE;
        unsigned face = mine < count ? faces[mine] : 0;
        while (warp_ballot(mine < count)) {
            bool is_done = false;
            if (mine < count) {
                REAL *row = rows + mine * WIDE;
                double y[R];
                const bool is_regular = try_face(given, row, unit, face, y);
                unsigned wrong = 0;
#pragma unroll
                for (int k = 0; k < R; k++) wrong |= (unsigned)(y[k] < -SLACK) << k;
                tries++;
                if (is_regular && wrong == 0) {
                    double total = 0.0;
#pragma unroll
                    for (int k = 0; k < R; k++) {
                        y[k] = (face >> k & 1) && !(y[k] < LEAST) ? y[k] : LEAST;
                        total += y[k];
                    }
                    // NaN, or numbers so large that their rounding shows, do not sum to one.
                    const bool is_found = fabs(total - 1.0) <= 1e-10;
                    const double inverse = 1.0 / total;
#pragma unroll
                    for (int k = 0; k < R; k++) row[k] = is_found ? (REAL)(y[k] * inverse) : (REAL)MARK;
                    is_done = true;
                } else {
                    const int number = count_bits(wrong);
                    patience = number < fewest ? PATIENCE : patience - 1;
                    fewest = number < fewest ? number : fewest;
                    face ^= patience > 0 || !wrong ? wrong : 1u << last_bit(wrong);
                    is_done = !is_regular || tries == TRIES || face == 0;
                    if (is_done) row[0] = (REAL)MARK;
                }
            }
            const unsigned done = warp_ballot(is_done);
            if (is_done) {
                mine = next + count_bits(done & ((1u << lane) - 1));
                face = mine < count ? faces[mine] : 0;
                tries = 0;
                fewest = R + 1;
                patience = PATIENCE;
            }
            next += count_bits(done);
        }
        __syncwarp();
        if (n_marked)
            for (int t = lane; t < count; t += WARP)
                if (rows[t * WIDE] == (REAL)MARK) atomicAdd(n_marked, 1ULL);
        for (int e = lane; e < count * R; e += WARP) out[first * R + e] = rows[e / R * WIDE + e % R];
        __syncwarp();
    }
}
