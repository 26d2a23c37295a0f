// Runs the blocks of a CUDA kernel one after the other, each thread on a stack of its own, and watches its memory.
//
// A thread runs until it waits for others; which one is next is up to the schedule. The kernel is compiled with
// -fsanitize=thread, so that it calls a function before each access, and these functions are here. Two accesses of a
// number by two threads, one of which is a write, are a race unless a barrier of both lies between them, whichever came
// first this time: so a race is found even where the schedule happens to give the right numbers. Within a warp only
// __syncwarp is such a barrier: shuffles and ballots do not order memory.
#include "runtime.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>

#include <algorithm>
#include <deque>
#include <random>
#include <string>
#include <vector>

using namespace std::string_literals;

// The linker's names for the ends of the section with SHARED arrays; null if there are none.
extern "C" __attribute__((weak, visibility("hidden"))) char __start_shared_arrays[], __stop_shared_arrays[];

namespace emulator {

Indices indices;

namespace {

constexpr int WARP = 32, MOST_FINDINGS = 20;
constexpr size_t STACK = 256 << 10;  // bytes of a thread
constexpr size_t CELL = 2;           // bytes that are watched together: the least that a kernel writes
constexpr size_t MARGIN = 1 << 16;   // bytes around dynamic shared memory, which belong to nobody

enum State { READY, AT_WARP, AT_BLOCK, DONE };
enum Access { READ, WRITE, ATOMIC };
enum Schedule { LOWEST_FIRST, HIGHEST_FIRST, RANDOM };

struct Copy {
    char *to;
    const char *from;
    int bytes;
    bool is_wanted;
};

struct Thread {
    ucontext_t context;
    State state = READY;
    Meeting kind;
    uint64_t value, result;
    int source;
    const void *site;
    std::vector<Copy> open;
    std::deque<std::vector<Copy>> batches;
};

// When a thread did something. Phases count the barriers of its block and of its warp so far.
struct Moment {
    int block = -1, thread, block_phase, warp_phase;
    int warp() const { return thread / WARP; }
};

// The past of CELL bytes.
struct Cell {
    int block = -1;  // which wrote or read it last
    Moment write, read;
    bool was_atomic = false, is_arriving = false;
    // Who else has read it: other threads of the warp since its last barrier, other warps since that of the block.
    bool by_threads = false, by_warps = false, by_blocks = false;
};

struct Memory {
    char *start, *end;
    bool is_shared;
    std::vector<Cell> cells;
    Memory(void *start, size_t bytes, bool is_shared)
        : start((char *)start), end((char *)start + bytes), is_shared(is_shared), cells((bytes + CELL - 1) / CELL) {}
    bool has(const char *address, size_t bytes) const { return start <= address && address + bytes <= end; }
};

int n_threads, block_phase, current;
std::vector<int> warp_phases;
std::vector<Thread> threads;
ucontext_t scheduler;
char *stacks;
std::vector<char> dynamic_shared;
std::vector<Memory> memories;
Schedule schedule;
std::mt19937_64 random_numbers;
void (*thread_function)(void *);
void *thread_args;
std::vector<std::string> findings, meetings;  // meetings: of two places, which may be one line of the source
std::string all_findings;
bool is_stopped;

// -- findings --------------------------------------------------------------------------------------------------------

std::string place(const void *site) {
    Dl_info image;
    dladdr(&indices, &image);
    char text[32];
    snprintf(text, sizeof text, "@%lx", (long)((char *)site - (char *)image.dli_fbase - 1));  // in the call, not after
    return text;
}

void add_to(std::vector<std::string> &list, const std::string &finding) {
    if (std::find(list.begin(), list.end(), finding) == list.end()) list.push_back(finding);
}

void report(const std::string &finding) { add_to(findings, finding); }

// End the launch, of which the current thread would do harm to the process.
void stop(const std::string &finding) {
    report(finding);
    is_stopped = true;
    swapcontext(&threads[current].context, &scheduler);
}

// -- memory ----------------------------------------------------------------------------------------------------------

Moment now() { return {indices.block.x, current, block_phase, warp_phases[current / WARP]}; }

bool is_before(const Moment &earlier, const Moment &now) {
    if (earlier.block < 0 || (earlier.block == now.block && earlier.thread == now.thread)) return true;
    if (earlier.block != now.block) return false;
    return earlier.warp() == now.warp() ? earlier.warp_phase != now.warp_phase : earlier.block_phase != now.block_phase;
}

bool all_reads_are_before(const Cell &cell, const Moment &now) {
    const Moment &read = cell.read;
    if (cell.by_blocks || !is_before(read, now)) return false;
    if (read.block != now.block || read.block_phase != now.block_phase) return true;
    return !cell.by_warps && !(cell.by_threads && read.warp() == now.warp() && read.warp_phase == now.warp_phase);
}

void note_read(Cell &cell, const Moment &now) {
    const Moment &read = cell.read;
    if (read.block != now.block || read.block_phase != now.block_phase) {
        cell.by_blocks |= read.block >= 0 && read.block != now.block;
        cell.by_threads = cell.by_warps = false;
    } else if (read.warp() != now.warp()) {
        cell.by_warps = true;
    } else if (read.warp_phase != now.warp_phase) {
        cell.by_threads = false;
    } else {
        cell.by_threads |= read.thread != now.thread;
    }
    cell.read = now;
}

Memory *memory_of(const char *address, int bytes) {
    for (Memory &memory : memories)
        if (memory.has(address, bytes)) return &memory;
    return nullptr;
}

template <class Use>
void for_cells(Memory &memory, const char *address, int bytes, Use use) {
    const size_t first = (address - memory.start) / CELL, last = (address + bytes - 1 - memory.start) / CELL;
    for (size_t i = first; i <= last; i++) use(memory.cells[i]);
}

// Of what is loaded or stored at once; larger pieces are copied number by number.
bool is_misaligned(const void *address, int bytes) {
    return bytes <= 16 && (bytes & (bytes - 1)) == 0 && (uintptr_t)address % bytes;
}

bool is_own(const char *address) {  // local variables, and the indices
    return (stacks <= address && address < stacks + STACK * n_threads) ||
           ((char *)&indices <= address && address < (char *)(&indices + 1));
}

void watch(const void *given, int bytes, Access access, const void *site) {
    const char *address = (const char *)given;
    if (is_own(address)) return;
    Memory *memory = memory_of(address, bytes);
    const char *what = access == READ ? "read" : "write";
    if (!memory) return stop(what + " out of bounds, of "s + std::to_string(bytes) + " bytes, at " + place(site));
    if (is_misaligned(address, bytes)) report(what + " of a misaligned address at "s + place(site));
    const char *where = memory->is_shared ? "shared" : "global";
    const Moment moment = now();
    for_cells(*memory, address, bytes, [&](Cell &cell) {
        if (memory->is_shared && cell.block != moment.block) cell = Cell();  // every block has its own
        cell.block = moment.block;
        if (cell.is_arriving) report(what + " of a copy that was not waited for at "s + place(site));
        if (!is_before(cell.write, moment) && !(access == ATOMIC && cell.was_atomic))
            report("race in "s + where + " memory: " + what + " after another thread's write at " + place(site));
        if (access != READ && !all_reads_are_before(cell, moment))
            report("race in "s + where + " memory: write after another thread's read at " + place(site));
        if (access == READ && memory->is_shared && cell.write.block < 0)
            report("read of uninitialised shared memory at " + place(site));
        if (access == READ) {
            note_read(cell, moment);
        } else {
            cell.write = moment;
            cell.was_atomic = access == ATOMIC;
        }
    });
}

void set_arriving(const Copy &copy, bool is_arriving) {
    Memory *memory = memory_of(copy.to, copy.bytes);
    for_cells(*memory, copy.to, copy.bytes, [&](Cell &cell) { cell.is_arriving = is_arriving; });
}

// -- threads ---------------------------------------------------------------------------------------------------------

void thread_main() {
    thread_function(thread_args);
    Thread &thread = threads[current];
    if (!thread.open.empty()) report("a copy was not waited for: a thread ends before its batch does");
    for (const auto &batch : thread.batches)
        if (!batch.empty()) report("a copy was not waited for: a thread ends before it has arrived");
    thread.state = DONE;
    swapcontext(&thread.context, &scheduler);
}

void make_threads() {
    threads = std::vector<Thread>(n_threads);
    for (int t = 0; t < n_threads; t++) {
        getcontext(&threads[t].context);
        threads[t].context.uc_stack.ss_sp = stacks + STACK * t;
        threads[t].context.uc_stack.ss_size = STACK;
        makecontext(&threads[t].context, thread_main, 0);
    }
}

// Let threads that have met go on: those from `first` on that are in a state.
void release(int first, int count, State state, std::vector<int> &ready) {
    const Thread *one = nullptr;
    uint64_t ballot = 0;
    for (int t = first; t < first + count; t++) {
        const Thread &thread = threads[t];
        if (thread.state == DONE) {
            report("threads have left where others meet");
            continue;
        }
        if (!one) one = &thread;
        if (thread.kind != one->kind) report("threads meet for different operations at " + place(thread.site));
        if (thread.site != one->site)
            add_to(meetings, "threads meet at different places: " + place(one->site) + " and " + place(thread.site));
        if (thread.kind == BALLOT && thread.value) ballot |= uint64_t(1) << (t - first);
    }
    for (int t = first; t < first + count; t++) {
        Thread &thread = threads[t];
        if (thread.state != state) continue;
        if (thread.kind == BALLOT) thread.result = ballot;
        if (thread.kind == SHUFFLE) thread.result = threads[first + thread.source].value;
        ready.push_back(t);
    }
    for (int t : ready) threads[t].state = READY;
}

int next_of(std::vector<int> &ready) {
    auto chosen = schedule == LOWEST_FIRST    ? std::min_element(ready.begin(), ready.end())
                  : schedule == HIGHEST_FIRST ? std::max_element(ready.begin(), ready.end())
                                              : ready.begin() + random_numbers() % ready.size();
    const int next = *chosen;
    *chosen = ready.back();
    ready.pop_back();
    return next;
}

void run_block() {
    const int n_warps = n_threads / WARP;
    block_phase = 0;
    warp_phases.assign(n_warps, 0);
    make_threads();
    for (Memory &memory : memories)
        if (memory.is_shared) memset(memory.start, 0xff, memory.end - memory.start);  // not a number
    std::vector<int> ready, at_warp(n_warps), done_of_warp(n_warps);
    int at_block = 0, done = 0;
    for (int t = 0; t < n_threads; t++) ready.push_back(t);
    while (done < n_threads && findings.size() < MOST_FINDINGS) {
        if (ready.empty()) return report("threads wait for each other for ever");
        current = indices.thread.x = next_of(ready);
        swapcontext(&scheduler, &threads[current].context);
        if (is_stopped) return;
        const State state = threads[current].state;
        const int warp = current / WARP;
        at_warp[warp] += state == AT_WARP;
        at_block += state == AT_BLOCK;
        done_of_warp[warp] += state == DONE;
        done += state == DONE;
        if (at_warp[warp] && at_warp[warp] + done_of_warp[warp] == WARP) {
            at_warp[warp] = 0;
            release(warp * WARP, WARP, AT_WARP, ready);
            warp_phases[warp] += threads[ready.back()].kind == SYNCWARP;
        }
        if (at_block && at_block + done == n_threads) {
            at_block = 0;
            release(0, n_threads, AT_BLOCK, ready);
            block_phase++;
            for (int &phase : warp_phases) phase++;
        }
    }
}

}  // namespace

// -- what kernels call -----------------------------------------------------------------------------------------------

uint64_t meet(Meeting kind, uint64_t value, int source) {
    Thread &thread = threads[current];
    thread.kind = kind;
    thread.value = value;
    thread.source = source;
    thread.site = __builtin_return_address(0);
    thread.state = kind == SYNCTHREADS ? AT_BLOCK : AT_WARP;
    swapcontext(&thread.context, &scheduler);
    return thread.result;
}

void *start_of_dynamic_shared() { return dynamic_shared.data() + MARGIN; }

void note_atomic(void *address, int bytes) { watch(address, bytes, ATOMIC, __builtin_return_address(0)); }

void begin_copy(void *to, const void *from, int bytes, bool is_wanted) {
    const void *site = __builtin_return_address(0);
    if (is_misaligned(from, bytes)) report("copy of a misaligned address at " + place(site));  // whether wanted or not
    if (is_wanted) watch(from, bytes, READ, site);
    watch(to, bytes, WRITE, site);
    memset(to, 0xff, bytes);
    threads[current].open.push_back({(char *)to, (const char *)from, bytes, is_wanted});
    set_arriving(threads[current].open.back(), true);
}

void end_batch() {
    Thread &thread = threads[current];
    thread.batches.push_back(std::move(thread.open));
    thread.open.clear();
}

void wait_for_batches(int n_left) {
    auto &batches = threads[current].batches;
    for (; (int)batches.size() > n_left; batches.pop_front()) {
        for (const Copy &copy : batches.front()) {
            set_arriving(copy, false);
            watch(copy.to, copy.bytes, WRITE, __builtin_return_address(0));
            if (copy.is_wanted) {
                memcpy(copy.to, copy.from, copy.bytes);
            } else {
                memset(copy.to, 0, copy.bytes);
            }
        }
    }
}

void run_grid(void (*thread)(void *), void *args) {
    thread_function = thread;
    thread_args = args;
    std::vector<int> order;
    for (int i = 0; i < indices.grid.x; i++) order.push_back(i);
    if (schedule == HIGHEST_FIRST) std::reverse(order.begin(), order.end());
    if (schedule == RANDOM) std::shuffle(order.begin(), order.end(), random_numbers);
    for (int block : order) {
        indices.block.x = block;
        if (!is_stopped) run_block();
    }
    threads.clear();
    memories.clear();
}

// -- what Python calls -----------------------------------------------------------------------------------------------

extern "C" {

void set_up(int blocks, int threads_of_block, long shared, int which, long seed) {
    if (threads_of_block != n_threads) {
        if (stacks) munmap(stacks, STACK * n_threads);
        n_threads = threads_of_block;
        const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
        stacks = (char *)mmap(nullptr, STACK * n_threads, PROT_READ | PROT_WRITE, flags, -1, 0);
    }
    indices.grid.x = blocks;
    schedule = (Schedule)which;
    random_numbers.seed(seed);
    findings.clear();
    meetings.clear();
    is_stopped = false;
    memories.clear();
    dynamic_shared.assign(shared + 2 * MARGIN, 0);
    memories.emplace_back(dynamic_shared.data() + MARGIN, shared, true);
    if (__start_shared_arrays)
        memories.emplace_back(__start_shared_arrays, __stop_shared_arrays - __start_shared_arrays, true);
}

void allow(void *start, long bytes) { memories.emplace_back(start, bytes, false); }

const char *found() {
    all_findings.clear();
    for (const auto *list : {&findings, &meetings})
        for (const std::string &each : *list) all_findings += each + "\n";
    return all_findings.c_str();
}

// -- what the compiler has kernels call ------------------------------------------------------------------------------

#define SITE __builtin_return_address(0)
#define ACCESS(BYTES) \
    void __tsan_read##BYTES(void *address) { watch(address, BYTES, READ, SITE); } \
    void __tsan_write##BYTES(void *address) { watch(address, BYTES, WRITE, SITE); } \
    void __tsan_unaligned_read##BYTES(void *address) { watch(address, BYTES, READ, SITE); } \
    void __tsan_unaligned_write##BYTES(void *address) { watch(address, BYTES, WRITE, SITE); }
ACCESS(1) ACCESS(2) ACCESS(4) ACCESS(8) ACCESS(16)
void __tsan_read_range(void *address, long bytes) { watch(address, bytes, READ, SITE); }
void __tsan_write_range(void *address, long bytes) { watch(address, bytes, WRITE, SITE); }
void __tsan_func_entry(void *) {}
void __tsan_func_exit() {}
void __tsan_init() {}

#define ARITHMETIC(NAME) \
    void __ubsan_handle_##NAME(void *, void *, void *) { report("integer overflow, " #NAME ", at " + place(SITE)); }
ARITHMETIC(add_overflow) ARITHMETIC(sub_overflow) ARITHMETIC(mul_overflow) ARITHMETIC(negate_overflow)
ARITHMETIC(divrem_overflow) ARITHMETIC(shift_out_of_bounds)
void __ubsan_handle_out_of_bounds(void *, void *) { stop("index of an array out of bounds at " + place(SITE)); }

}  // extern "C"
}  // namespace emulator
