// The uncertainty of memberships on a device: the covariance of each sample's posterior on its face, summed over samples.
// See _covariance.py for the formulas. Sums do not depend on the number of blocks: UNIT samples are added up by one block
// in a fixed order, and runs.cu adds up what it writes.

#define POSITIVE 1e-6  // as in _faces.py

#include "_triangle.cuh"

#define TRIANGLE(n) ((n) * ((n) + 1) / 2)

// How often a sample or a face counts, and whether a component is on its face.
#define WEIGHT(item) (counts ? (double)counts[item] : weights ? weights[item] : 1.0)
#define IS_INSIDE(item, k) (counts ? (bool)((item) >> (k) & 1) : Ht[(item) * r + (k)] > (REAL)POSITIVE)

// The row of an entry of a lower triangle that is stored by rows.
INLINE int row_of_entry(int e) {
    int row = (int)((sqrt(8.0 * e + 1.0) - 1.0) / 2.0);
    while (TRIANGLE(row + 1) <= e) row++;  // what rounding may leave
    while (TRIANGLE(row) > e) row--;
    return row;
}

// The precision of the first f - 1 memberships of a face.
struct Precision {
    const double *Q;
    int r;
    const unsigned short *members;
    int last;
    double corner, prior;
    INLINE int place(int i) const { return members[i]; }
    INLINE double at(int k, int l) const {
        const double *row = Q + k * r;
        return row[l] - row[last] - Q[last * r + l] + corner + (k == l ? prior : 0.0);
    }
    INLINE double least(int) const { return prior; }
};

// Add up the covariances of UNIT faces, or samples, and the gains in log-determinant.
//   counts   those of count_faces, and then n is the number of faces; or null
//   fewest, most  samples on faces of so many components are taken; there is room for `most`
//   Q        W'W / noise, rows of r numbers; with the constant OWN one matrix for each sample, for which its covariance,
//            times its weight, takes its place
//   sums     for each unit the lower triangle of the sum by rows, and the gain
// Shared memory: for each group a triangle of `most` rows; one sum; for each group its weight, the size and the members of
// its face; of each sample whether it is taken, and a list of those; the row of each entry of the triangle. With the constant
// ROOMS_OUTSIDE the triangles and the sum are in global memory, and rows are computed, because shared memory is too small.
extern "C" __global__ void __launch_bounds__(THREADS)
add_covariances(const REAL *__restrict__ Ht, const double *__restrict__ weights,
                const unsigned long long *__restrict__ counts, long long n, int r, int fewest, int most,
                double *Q, double *sums, double *outside) {
    DYNAMIC_SHARED(double, inside);
    const int n_groups = THREADS / LANES, room = ROW(most), n_entries = TRIANGLE(r) + 1;
#ifdef ROOMS_OUTSIDE
    double *rooms = outside + (long long)blockIdx.x * n_groups * room, *S, *factors = inside;
#else
    double *rooms = inside, *S = rooms + n_groups * room, *factors = S + n_entries + n_entries % 2;
#endif
    int *sizes = reinterpret_cast<int *>(factors + n_groups);
    unsigned short *all_members = reinterpret_cast<unsigned short *>(sizes + n_groups);
    const int lane = lane_of_group(), group = threadIdx.x / LANES;
    double *A = rooms + group * room;
    unsigned short *members = all_members + group * r;
    unsigned short *is_taken = all_members + n_groups * r, *taken = is_taken + UNIT;
#ifndef ROOMS_OUTSIDE
    unsigned short *places = taken + UNIT;
    for (int i = threadIdx.x; i < most; i += THREADS)
        for (int j = 0; j <= i; j++) places[TRIANGLE(i) + j] = i;
#endif
    const long long n_units = (n + UNIT - 1) / UNIT;
    for (long long unit = blockIdx.x; unit < n_units; unit += gridDim.x) {
#ifdef ROOMS_OUTSIDE
        S = sums + unit * n_entries;
#endif
        for (int e = threadIdx.x; e < n_entries; e += THREADS) S[e] = 0.0;
        // Which samples are taken: only those are handed out, so that no group waits for others without one.
        for (int turn = 0; turn < UNIT; turn += n_groups) {
            const int i = turn + group;
            const long long item = unit * UNIT + i;
            const bool is_there = i < UNIT && item < n;
            int f = 0;
            for (int from = 0; from < r; from += LANES) {
                const int k = from + lane;
                f += count_bits(group_ballot(is_there && k < r && IS_INSIDE(item, k)));
            }
            const bool is_one = f >= 2 && f >= fewest && f <= most && WEIGHT(item) > 0.0;
            if (i < UNIT && lane == 0) is_taken[i] = is_one;
#ifdef OWN
            if (is_there && !is_one)
                for (int e = lane; e < r * r; e += LANES) Q[item * r * r + e] = 0.0;
#endif
        }
        __syncthreads();
        int n_taken = 0;
        for (int from = 0; from < UNIT; from += WARP) {
            const int i = from + lane_of_warp();
            const bool is_one = i < UNIT && is_taken[i];
            const unsigned bits = warp_ballot(is_one);
            if (is_one && threadIdx.x < WARP) taken[n_taken + count_bits(bits & ((1u << lane_of_warp()) - 1))] = i;
            n_taken += count_bits(bits);
        }
        __syncthreads();
        double gain = 0.0;
        for (int turn = 0; turn < n_taken; turn += n_groups) {
            const bool has_one = turn + group < n_taken;
            const long long item = unit * UNIT + (has_one ? taken[turn + group] : 0);
            const double weight = has_one ? WEIGHT(item) : 0.0;
            int f = 0;
            for (int from = 0; from < r; from += LANES) {
                const int k = from + lane;
                const bool is_inside = has_one && k < r && IS_INSIDE(item, k);
                const unsigned bits = group_ballot(is_inside);
                if (is_inside) members[f + count_bits(bits & ((1u << lane) - 1))] = k;
                f += count_bits(bits);
            }
            __syncwarp();
            const int s = f ? f - 1 : 0, s_all = most_of_groups(s), last = f ? members[s] : 0;
            const double prior = (double)f * (f + 1);
#ifdef OWN
            double *Gram = Q + item * r * r;
#else
            const double *Gram = Q;
#endif
            // Without a sample nothing is read: another group may be writing there.
            const Precision P = {Gram, r, members, last, (f ? Gram[last * r + last] : 0.0) + prior, prior};
            const Pivots pivots = factor<0, true>(P, s, s_all, A);
            invert(A, s, s_all);
            square(A, s, s_all);
            // The last row: memberships sum to one.
            double corner = 0.0;
            double *bottom = A + ROW(s);
            for (int i = lane; i < s; i += LANES) {
                double total = 0.0;
                for (int j = 0; j < s; j++) total += j <= i ? A[ROW(i) + j] : A[ROW(j) + i];
                bottom[i] = -total;
                corner += total;
            }
            corner = group_sum(corner);
            if (f) {
                if (lane == 0) bottom[s] = corner;
                gain += weight * (pivots.log_det - log((double)f) - s * log(prior));
            }
#ifdef OWN
            if (has_one)
                for (int e = lane; e < r * r; e += LANES) Gram[e] = 0.0;
            __syncwarp();
            for (int i = 0; i < f; i++)
                for (int j = lane; j <= i; j += LANES)
                    Gram[members[i] * r + members[j]] = Gram[members[j] * r + members[i]] = weight * A[ROW(i) + j];
#endif
            if (lane == 0) {
                sizes[group] = f;
                factors[group] = weight;
            }
            __syncthreads();
            // Sample after sample: entries of one sample are all different.
            for (int g = 0; g < n_groups && turn + g < n_taken; g++) {
                const double *one = rooms + g * room;
                const int size = sizes[g];
                for (int e = threadIdx.x; e < TRIANGLE(size); e += THREADS) {
#ifdef ROOMS_OUTSIDE
                    const int i = row_of_entry(e), j = e - TRIANGLE(i);
#else
                    const int i = places[e], j = e - TRIANGLE(i);
#endif
                    const int k = all_members[g * r + i];
                    S[TRIANGLE(k) + all_members[g * r + j]] += factors[g] * one[ROW(i) + j];
                }
                __syncthreads();
            }
        }
        if (lane == 0) factors[group] = gain;
        __syncthreads();
        if (threadIdx.x == 0)
            for (int g = 0; g < n_groups; g++) S[n_entries - 1] += factors[g];
        __syncthreads();
#ifndef ROOMS_OUTSIDE
        for (int e = threadIdx.x; e < n_entries; e += THREADS) sums[unit * n_entries + e] = S[e];
#endif
        __syncthreads();
    }
}
