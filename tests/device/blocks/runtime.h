// What the sources of kernels and runtime.cpp know of each other.
#pragma once
#include <stdint.h>

namespace emulator {

struct Index { int x; };
struct Indices { Index thread, block, grid; };
extern Indices indices;

enum Meeting { SYNCTHREADS, SYNCWARP, SHUFFLE, BALLOT };

// Wait until all threads of the block or the warp have come to the same. Returns the value of the lane `source` for a
// shuffle, and the bits of all lanes for a ballot.
uint64_t meet(Meeting kind, uint64_t value = 0, int source = 0);

void *start_of_dynamic_shared();
void note_atomic(void *address, int bytes);

// Copies that arrive when they are waited for, as cp.async is allowed to do.
void begin_copy(void *to, const void *from, int bytes, bool is_wanted);
void end_batch();
void wait_for_batches(int n_left);

// Run all blocks of a grid; `thread` is one thread of a block.
void run_grid(void (*thread)(void *), void *args);

}  // namespace emulator
