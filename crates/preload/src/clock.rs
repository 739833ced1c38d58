//! Time, at a cost of a few nanoseconds.
//!
//! `clock_gettime` costs 25–40 ns and a hook needs it twice. Where the processor states that its cycle counter runs at a constant
//! rate, and the kernel itself trusts it as its clock (so it agrees between cores), the counter is read directly. Nobody calibrates it:
//! each block carries a pair of counter and monotonic clock, and readers reckon with those.

use core::sync::atomic::{AtomicBool, Ordering::Relaxed};

use iotide_wire::ClockKind;

use crate::sys;

static COUNTS_CYCLES: AtomicBool = AtomicBool::new(false);

/// Chooses the clock. Called once, before the first tick is read.
pub fn start() {
    COUNTS_CYCLES.store(cycle_counter_is_a_clock(), Relaxed);
}

/// Returns the kind of ticks in this process.
pub fn kind() -> ClockKind {
    if COUNTS_CYCLES.load(Relaxed) { ClockKind::CycleCounter } else { ClockKind::MonotonicNanos }
}

/// Returns the time in ticks.
#[inline(always)]
pub fn now() -> u64 {
    #[cfg(target_arch = "x86_64")]
    if COUNTS_CYCLES.load(Relaxed) {
        // SAFETY: every x86-64 processor has the instruction.
        return unsafe { core::arch::x86_64::_rdtsc() };
    }
    nanos(libc::CLOCK_MONOTONIC)
}

/// Returns one moment on both clocks: ticks, and nanoseconds of the monotonic clock.
pub fn pair() -> (u64, u64) {
    // The closest of three tries: between two readings a thread may lose its processor.
    let mut best = (u64::MAX, 0, 0);
    for _ in 0..3 {
        let before = now();
        let nanos = nanos(libc::CLOCK_MONOTONIC);
        let width = now().wrapping_sub(before);
        if width < best.0 {
            best = (width, before.wrapping_add(width / 2), nanos);
        }
    }
    match kind() {
        ClockKind::CycleCounter => (best.1, best.2),
        ClockKind::MonotonicNanos => (best.2, best.2),
    }
}

/// Returns the monotonic clock.
pub fn monotonic_nanos() -> u64 {
    nanos(libc::CLOCK_MONOTONIC)
}

/// Returns the monotonic clock as of the kernel's last tick, a few milliseconds ago at most, for a few nanoseconds.
pub fn coarse_nanos() -> u64 {
    nanos(libc::CLOCK_MONOTONIC_COARSE)
}

/// Returns the nanoseconds to add to the monotonic clock to get the time since the Unix epoch.
pub fn realtime_offset_ns() -> i64 {
    let before = nanos(libc::CLOCK_MONOTONIC);
    let real = nanos(libc::CLOCK_REALTIME);
    let after = nanos(libc::CLOCK_MONOTONIC);
    real as i64 - (before + (after - before) / 2) as i64
}

fn nanos(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is to a timespec of our own; both clocks exist on every Linux, so `errno` stays untouched.
    unsafe { libc::clock_gettime(clock, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

#[cfg(target_arch = "x86_64")]
fn cycle_counter_is_a_clock() -> bool {
    use core::arch::x86_64::__cpuid;
    let invariant = __cpuid(0x8000_0000).eax >= 0x8000_0007 && __cpuid(0x8000_0007).edx & (1 << 8) != 0;
    if !invariant {
        return false;
    }
    let path = c"/sys/devices/system/clocksource/clocksource0/current_clocksource";
    let fd = sys::open(path, libc::O_RDONLY | libc::O_CLOEXEC, 0) as i32;
    if fd < 0 {
        return false;
    }
    let mut name = [0; 4];
    let n = sys::read(fd, &mut name);
    sys::close(fd);
    n == 4 && name == *b"tsc\n"
}

#[cfg(not(target_arch = "x86_64"))]
fn cycle_counter_is_a_clock() -> bool {
    false
}
