// The H-step by the interior-point method: LANES threads for each sample.
//
// With the constant OWN each sample has a Gram matrix of its own, plus 1 1', and a factor `units` of b. Where that is
// negative, the memberships are not unique, and the interior-point method starts from the centre.

#include "_h_step.cuh"
#include "_triangle.cuh"

#ifdef OWN
#define SHIFT 1.0  // what was added to the matrix
#else
#define SHIFT 0.0
#endif

// A symmetric matrix plus a positive diagonal. No pivot is below that: rounding may cancel it where the matrix is singular.
struct Lifted {
    const double *Q;
    int width;
    const double *added;
    INLINE int place(int i) const { return i; }
    INLINE double at(int i, int j) const { return Q[i * width + j] - SHIFT + (i == j ? added[i] : 0.0); }
    INLINE double least(int i) const { return added[i]; }
};

// Numbers of float64 that solve_inside needs for each sample: a triangle of r rows with two rows below it, and two more.
#define ROOM(r) (ROW(r) + 4 * EVEN(r))

// Write the minimiser to `result`, if this group is active. Of b, h, the positive weights a of
// the logarithms and the result a thread has its own components.
//   Q      rows of r numbers, not much larger than one
//   warm   whether h is near the solution; else it need not be set
//   tol    largest error of the optimality conditions, relative to the spread of b if that is larger than one
INLINE void interior_point(const double *__restrict__ Q, const double *a, const double *b, bool warm, double tol,
                           bool is_active, int r, double *A, double *h, double *result) {
    double z[SLOTS], g[SLOTS], dh[SLOTS], dz[SLOTS];
    double *p = A + ROW(r), *q = p + EVEN(r), *u = q + EVEN(r), *v = u + EVEN(r);
    const double inv_r = 1.0 / r;

    // Where to start: away from the boundary, so that a zero can become positive again, with multipliers z > 0.
    double total = 0.0, low = 1e300, high = -1e300;
    FOR_OWN {
        h[c] = warm ? fmax(h[c], LIFT * inv_r) : inv_r;
        total += h[c];
        low = fmin(low, b[c]);
        high = fmax(high, b[c]);
    }
    total = group_sum(total);
    const double allowed = tol * fmax(1.0, group_max(high) + group_max(-low));
    __syncwarp();
    FOR_OWN {
        h[c] /= total;
        u[k] = h[c];
    }
    __syncwarp();
    double nu = 0.0, gap = 0.0, mean = 0.0;
    low = 1e300;
    FOR_OWN {
        g[c] = -b[c];
        for (int l = 0; l < r; l++) g[c] += (Q[l * r + k] - SHIFT) * u[l];
        nu += a[c] - h[c] * g[c];
        mean += g[c] * inv_r;
        low = fmin(low, g[c]);
    }
    nu = group_sum(nu);
    mean = group_sum(mean);
    low = -group_max(-low);
    FOR_OWN gap += h[c] * fabs(g[c] + nu) * BALANCE * inv_r;
    gap = group_sum(gap);
    FOR_OWN z[c] = warm ? fmax(g[c] + nu, (a[c] + gap) / h[c]) : g[c] - low + 0.3 * (mean - low) + a[c];

    // All groups of a warp take steps until the last is done; the others keep what they have.
    double step = 1.0;
    for (int count = 0; count < MAX_STEPS && warp_ballot(is_active); count++) {
        // M = Q + diag(z / h) = L L', p = L^-1 (a / h - g), q = L^-1 1.
        double lacking = 0.0;
        gap = 0.0;
        __syncwarp();
        FOR_OWN {
            u[k] = z[c] / h[c];
            p[k] = a[c] / h[c] - g[c];
            q[k] = 1.0;
            gap += fabs(h[c] * z[c] - a[c]) * inv_r;
            lacking -= h[c];
        }
        gap = group_sum(gap);
        lacking = 1.0 + group_sum(lacking);  // rounding only, but it must not accumulate
        __syncwarp();
        factor<2>(Lifted{Q, r, u}, r, r, A);
        double pq = 0.0, qq = 0.0;
        FOR_OWN {
            pq += p[k] * q[k];
            qq += q[k] * q[k];
        }
        pq = group_sum(pq);
        qq = group_sum(qq);
        // Predictor: straight to the solution; how far it gets says how much to centre.
        nu = (pq - lacking) / qq;
        FOR_OWN v[k] = p[k] - nu * q[k];
        __syncwarp();
        solve_transposed(A, r, r, v, u);
        double longest = 1.0;
        FOR_OWN {
            dh[c] = u[k];
            dz[c] = (a[c] - z[c] * dh[c]) / h[c] - z[c];
            longest = fmax(longest, fmax(-dh[c] / h[c], -dz[c] / z[c]));
        }
        const double reach = 1.0 / group_max(longest);
        double predicted = 0.0;
        FOR_OWN predicted += fabs((h[c] + reach * dh[c]) * (z[c] + reach * dz[c]) - a[c]) * inv_r;
        predicted = group_sum(predicted);
        const bool is_centring = step <= SHORT || count >= STEPS;
        const double part = fmin(1.0, predicted / fmax(gap, 1e-30));
        const double left = gap * (is_centring ? SHORT : part * part * part);
        // Corrector: the same matrix, a better target.
        __syncwarp();
        FOR_OWN {
            const double extra = left - (is_centring ? 0.0 : dh[c] * dz[c]);
            dz[c] = a[c] + extra;
            v[k] = extra / h[c];
        }
        __syncwarp();
        solve_lower(A, r, v, u);
        double qu = 0.0;
        FOR_OWN qu += q[k] * u[k];
        nu += group_sum(qu) / qq;
        FOR_OWN v[k] = p[k] + u[k] - nu * q[k];
        __syncwarp();
        solve_transposed(A, r, r, v, u);
        double rest = 0.0;
        FOR_OWN {
            dh[c] = u[k];
            rest -= dh[c];
        }
        rest = lacking + group_sum(rest);
        longest = TO_BOUNDARY;
        FOR_OWN {
            // Where z / h is tiny, dh is a difference of large numbers: correct all entries so that sum (h + dh) = 1.
            dh[c] += h[c] * rest;
            dz[c] = (dz[c] - z[c] * dh[c]) / h[c] - z[c];
            longest = fmax(longest, fmax(-dh[c] / h[c], -dz[c] / z[c]));
        }
        step = TO_BOUNDARY / group_max(longest);
        double error = 0.0;
        total = 0.0;
        __syncwarp();
        FOR_OWN {
            h[c] += step * dh[c];
            z[c] += step * dz[c];
            u[k] = h[c];
            total += h[c];
            error = fmax(error, fabs(h[c] * z[c] - a[c]));
        }
        total = group_sum(total);
        __syncwarp();
        FOR_OWN {
            g[c] = -b[c];
            for (int l = 0; l < r; l++) g[c] += (Q[l * r + k] - SHIFT) * u[l];
            error = fmax(error, fabs(g[c] - z[c] + nu) * inv_r);
        }
        error = fmax(group_max(error), fabs(total - 1.0) * inv_r);
        if (is_active && error <= allowed) {
            is_active = false;
            FOR_OWN result[c] = h[c] / total;
        }
    }
    if (is_active) FOR_OWN result[c] = h[c] / total;
}

// Take all samples, or those that are marked: a warp looks at as many at a time as it has threads.
//   counted  how many have been marked so far, and where to count entries of b that are not finite: samples with some
//            are always marked; or null
extern "C" __global__ void __launch_bounds__(THREADS, 512 / THREADS)
solve_inside(const REAL *__restrict__ Bt, const REAL *Ht0, REAL *out, long long n, int r, int only_marked, double unit,
             double tol, const double *__restrict__ Q_of_all, const double *__restrict__ weights,
             const double *__restrict__ units, double *rooms, unsigned long long *counted) {
    if (only_marked && counted && counted[0] == 0) return;
    ROOMS(all_rooms, ROOM(r));
    const double *Q = Q_of_all;
    const int lane = lane_of_warp(), group = threadIdx.x / LANES, per_warp = WARP / LANES;
    double *A = all_rooms + group * ROOM(r);
    for (long long first = ((long long)blockIdx.x * (THREADS / WARP) + threadIdx.x / WARP) * WARP; first < n;
         first += (long long)gridDim.x * THREADS) {
        const long long own = first + lane;
        unsigned waiting = warp_ballot(own < n && (!only_marked || out[own * r] == (REAL)MARK));
        while (waiting) {  // each group takes one of those that wait
            int which = -1;
            for (int turn = 0; turn < per_warp && waiting; turn++) {
                const int last = last_bit(waiting);
                waiting ^= 1u << last;
                if (turn == group % per_warp) which = last;
            }
            const long long at = (first + which) * r;
            double a[SLOTS], b[SLOTS], h[SLOTS], result[SLOTS];
            bool warm = Ht0;
#ifdef OWN
            Q = Q_of_all + (which >= 0 ? at * r : 0);
            unit = which >= 0 ? units[first + which] : 1.0;
            warm = warm && unit > 0.0;
            unit = fabs(unit);
            // The weights and the tolerance of _tolerance.py, with the scale of this sample.
            const double shrink = r > 10 ? 10.0 / r : 1.0;
            double least = 1e300;
            FOR_OWN {
                a[c] = weights[k] > 0.0 ? fmax(weights[k] * unit, ROUNDING) : AT_ZERO * shrink;
                if (weights[k] > 0.0) least = fmin(least, a[c]);
            }
            tol = fmin(TOL * shrink, fmax(-PART * group_max(-least), ROUNDING));
#else
            FOR_OWN a[c] = weights[k];
#endif
            FOR_OWN {
                b[c] = which >= 0 ? Bt[at + k] * unit : 0.0;
                h[c] = which >= 0 && warm ? Ht0[at + k] : 1.0 / r;
            }
            if (counted) FOR_OWN if (b[c] - b[c] != 0.0) atomicAdd(counted + 1, 1ULL);
            interior_point(Q, a, b, warm, tol, which >= 0, r, A, h, result);
            if (which >= 0) FOR_OWN out[at + k] = (REAL)result[c];
        }
        __syncwarp();
    }
}
