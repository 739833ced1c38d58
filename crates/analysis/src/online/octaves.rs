//! The last stretch of the bandwidth at every resolution, in a bounded amount of memory.
//!
//! One ring of bins per octave: bins of ring `l` are `2^l` times as wide as those of ring 0, and each ring reaches
//! [`N_BINS`] bins back from the newest time seen. So any window that ends now is there at [`N_BINS`]`/2` to
//! [`N_BINS`] samples, whether it is a second or a month long.
//!
//! A byte is kept once. A request goes into the widest bins it fills from end to end (there are at most four of them
//! per octave), and a bin that its own ring no longer reaches moves into the next one. That makes a request cost
//! `O(log(length))` however long it is, an advance in time `O(1)` amortised, and any order of arrival gives the same
//! sums, as long as a ring still reaches the time in question.
//!
//! A ring keeps the bins that hold something, and no others: where thousands of jobs are listened to, most of each ring is silence.

use std::collections::VecDeque;

use iotide_trace::SampledSignal;

/// Bins of one ring.
pub(super) const N_BINS: usize = 2048;

/// Rings. With bins of a millisecond in ring 0, the last one reaches back 100 days.
pub(super) const N_RINGS: usize = 23;

#[derive(Clone, Debug)]
pub(super) struct Octaves {
    rings: Vec<Ring>,
    /// `log2` of the width of ring 0's bins, in nanoseconds.
    shift: u32,
    /// How many bins were written to so far: what the stream has cost.
    writes: u64,
}

#[derive(Clone, Debug)]
struct Ring {
    /// Index of the oldest bin that is kept, counted in bins of this ring from time 0. Always even, so that a whole bin of
    /// the next ring is kept or not.
    tail: i64,
    /// Which bins hold something, in the order of time: `i mod N_BINS` of each.
    places: VecDeque<u16>,
    /// Their bytes.
    bytes: VecDeque<f64>,
}

// A place is kept in two bytes.
const _: () = assert!(N_BINS <= 1 << u16::BITS && N_BINS.is_power_of_two());

impl Octaves {
    /// Returns empty rings whose narrowest bins are `2^shift` nanoseconds wide and which reach up to time 0.
    pub(super) fn new(shift: u32) -> Self {
        let ring = || Ring { tail: -(N_BINS as i64), places: VecDeque::new(), bytes: VecDeque::new() };
        Self { rings: (0..N_RINGS).map(|_| ring()).collect(), shift, writes: 0 }
    }

    /// Bytes of memory held, beside this struct itself.
    pub(super) fn heap_bytes(&self) -> usize {
        self.rings.capacity() * size_of::<Ring>() + self.rings.iter().map(Ring::heap_bytes).sum::<usize>()
    }

    pub(super) fn writes(&self) -> u64 {
        self.writes
    }

    /// Makes room up to `end`, the newest time seen.
    pub(super) fn advance(&mut self, end: i64) {
        // The widest first: what leaves a ring finds its place in one that is up to date.
        if ((end - 1) >> self.shift) < self.rings[0].head() {
            return;
        }
        for level in (0..N_RINGS).rev() {
            let last = (end - 1) >> self.width_bits(level);
            if last >= self.rings[level].head() {
                let tail = (last + 2 - N_BINS as i64) & !1;
                self.move_out(level, tail);
                self.rings[level].tail = tail;
            }
        }
    }

    /// Adds `bytes`, spread evenly over `start..end`. [`Octaves::advance`] has made room.
    pub(super) fn add(&mut self, start: i64, end: i64, bytes: f64) {
        if end - start <= 1 {
            return self.add_at(0, start, bytes);
        }
        let rate = bytes / (end - start) as f64;
        let (mut from, mut to) = (start, end);
        for level in 0..N_RINGS {
            let next_width = 1i64 << (self.width_bits(level) + 1);
            let tail = self.rings[level].tail << self.width_bits(level);
            let (inner_from, inner_to) = ((from + next_width - 1) & -next_width, to & -next_width);
            if inner_from >= inner_to && from >= tail {
                return self.add_within(level, from, to, rate);
            }
            if from >= tail && inner_from > from {
                self.add_within(level, from, inner_from, rate);
                from = inner_from;
            }
            if inner_to >= tail.max(from) && inner_to < to {
                self.add_within(level, inner_to, to, rate);
                to = inner_to;
            }
            if from >= to {
                return;
            }
        }
        // What is older than 2048 of the widest bins is forgotten.
        let last = N_RINGS - 1;
        let tail = self.rings[last].tail << self.width_bits(last);
        self.add_within(last, from.max(tail), to, rate);
    }

    /// Adds to the bins of one ring; few, as the caller sees to it.
    fn add_within(&mut self, level: usize, from: i64, to: i64, rate: f64) {
        let bits = self.width_bits(level);
        let mut at = from;
        while at < to {
            let index = at >> bits;
            let until = ((index + 1) << bits).min(to);
            self.rings[level].add(index, rate * (until - at) as f64);
            self.writes += 1;
            at = until;
        }
    }

    /// Adds to the narrowest bin, from `level` on, that still reaches `at`.
    fn add_at(&mut self, level: usize, at: i64, bytes: f64) {
        for level in level..N_RINGS {
            let index = at >> self.width_bits(level);
            if index >= self.rings[level].tail {
                self.rings[level].add(index, bytes);
                self.writes += 1;
                return;
            }
        }
    }

    /// Moves the bins before `tail` into wider ones.
    fn move_out(&mut self, level: usize, tail: i64) {
        while let Some((index, bytes)) = self.rings[level].take_before(tail) {
            if level + 1 < N_RINGS {
                self.add_at(level + 1, index << self.width_bits(level), bytes);
            }
        }
        self.rings[level].give_back();
    }

    fn width_bits(&self, level: usize) -> u32 {
        self.shift + level as u32
    }

    /// Returns the bandwidth from `start` to `end` on the finest grid of at most `most` samples.
    ///
    /// The first sample is a whole bin: it begins at or before `start`. So may the last one end after `end`; its value is
    /// the mean over the part before `end`. Times are nanoseconds on the rings' own clock.
    pub(super) fn window(&self, start: i64, end: i64, most: usize) -> SampledSignal {
        let most = most.clamp(2, N_BINS);
        let start = start.max(self.rings[N_RINGS - 1].tail << self.width_bits(N_RINGS - 1)).min(end);
        let level = (0..N_RINGS - 1)
            .find(|&level| {
                let bits = self.width_bits(level);
                start >> bits >= self.rings[level].tail && ((end - 1) >> bits) - (start >> bits) < most as i64
            })
            .unwrap_or(N_RINGS - 1);
        let bits = self.width_bits(level);
        let (first, last) = (start >> bits, ((end - 1) >> bits).max(start >> bits));
        let n = (last - first + 1) as usize;
        let mut bytes = vec![0.0; n];
        for (finer, ring) in self.rings[..=level].iter().enumerate() {
            let down = level - finer;
            for (index, value) in ring.within(first << down, (last + 1) << down) {
                bytes[((index >> down) - first) as usize] += value;
            }
        }
        for (up, ring) in self.rings[level..].iter().enumerate().skip(1) {
            let share = 1.0 / (1u64 << up) as f64;
            for (index, value) in ring.within(first >> up, (last >> up) + 1) {
                let (from, to) = ((index << up).max(first), ((index + 1) << up).min(last + 1));
                bytes[(from - first) as usize..(to - first) as usize]
                    .iter_mut()
                    .for_each(|b| *b += value * share);
            }
        }
        let width_s = (1u64 << bits) as f64 * 1e-9;
        let mut values = bytes;
        values.iter_mut().for_each(|value| *value /= width_s);
        let part = (end - (last << bits)) as f64 / (1u64 << bits) as f64;
        if part > 0.0 && part < 1.0 {
            values[n - 1] /= part;
        }
        let start_s = (first << bits) as f64 * 1e-9;
        SampledSignal { start_s, rate_hz: 1.0 / width_s, values, duration_s: end as f64 * 1e-9 - start_s }
    }
}

impl Ring {
    /// Index of the first bin that there is no room for.
    fn head(&self) -> i64 {
        self.tail + N_BINS as i64
    }

    /// How far a bin is behind the oldest that is kept.
    fn offset(&self, place: u16) -> i64 {
        (i64::from(place) - self.tail) & (N_BINS as i64 - 1)
    }

    /// How many of the bins that hold something lie before `index`.
    fn n_before(&self, index: i64) -> usize {
        let offset = index - self.tail;
        match self.places.back() {
            // Most of what comes is newer than all.
            Some(&last) if self.offset(last) < offset => self.places.len(),
            _ => self.places.partition_point(|&place| self.offset(place) < offset),
        }
    }

    fn add(&mut self, index: i64, bytes: f64) {
        debug_assert!((self.tail..self.head()).contains(&index));
        let place = (index & (N_BINS as i64 - 1)) as u16;
        let at = self.n_before(index);
        if self.places.get(at) == Some(&place) {
            self.bytes[at] += bytes;
        } else if bytes != 0.0 {
            self.places.insert(at, place);
            self.bytes.insert(at, bytes);
        }
    }

    /// Takes the oldest bin that holds something, if it lies before `index`.
    fn take_before(&mut self, index: i64) -> Option<(i64, f64)> {
        let oldest = self.tail + self.offset(*self.places.front()?);
        if oldest >= index {
            return None;
        }
        self.places.pop_front();
        Some((oldest, self.bytes.pop_front()?))
    }

    /// The bins from `from` to `to` that hold something.
    fn within(&self, from: i64, to: i64) -> impl Iterator<Item = (i64, f64)> {
        let at = self.n_before(from.clamp(self.tail, self.head()));
        let bins = self.places.range(at..).zip(self.bytes.range(at..));
        let bins = bins.map(|(&place, &bytes)| (self.tail + self.offset(place), bytes));
        bins.take_while(move |(index, _)| *index < to)
    }

    /// Gives back memory that a burst has left behind.
    fn give_back(&mut self) {
        // A power of two grows to all bins of a ring, and not beyond.
        let enough = (2 * self.places.len()).next_power_of_two();
        if self.places.capacity() > 2 * enough.max(16) {
            self.places.shrink_to(enough);
            self.bytes.shrink_to(enough);
        }
    }

    fn heap_bytes(&self) -> usize {
        self.places.capacity() * size_of::<u16>() + self.bytes.capacity() * size_of::<f64>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const BITS: u32 = 10;

    fn filled(requests: &[(i64, i64, f64)]) -> Octaves {
        let mut octaves = Octaves::new(BITS);
        for &(start, end, bytes) in requests {
            octaves.advance(end);
            octaves.add(start, end, bytes);
        }
        octaves
    }

    /// The same by definition: each request's share of the window's bins.
    fn by_definition(requests: &[(i64, i64, f64)], like: &SampledSignal, end: i64) -> Vec<f64> {
        let origin = (like.start_s * 1e9).round();
        let width = 1e9 / like.rate_hz;
        let mut values = vec![0.0; like.values.len()];
        for (i, value) in values.iter_mut().enumerate() {
            let (from, to) = (origin + i as f64 * width, origin + (i + 1) as f64 * width);
            let known = (to.min(end as f64) - from) * 1e-9;
            for &(start, end, bytes) in requests {
                let (start, end) = (start as f64, end as f64);
                let shared = (end.min(to) - start.max(from)).max(0.0);
                *value += bytes * shared / (end - start) / known;
            }
        }
        values
    }

    fn requests() -> impl Strategy<Value = Vec<(i64, i64, f64)>> {
        let length = prop_oneof![2..5_000i64, 5_000..3_000_000i64];
        prop::collection::vec((0..9_000_000i64, length, 1.0..1e6f64), 1..60).prop_map(|all| {
            all.into_iter().map(|(start, length, bytes)| (start, start + length, bytes)).collect()
        })
    }

    proptest! {
        #[test]
        fn a_window_holds_what_its_requests_moved(mut requests in requests(), most in 16..N_BINS) {
            requests.sort_by_key(|request| request.1);
            let end = requests.last().unwrap().1;
            let signal = filled(&requests).window(0, end, most);
            let is_finest = signal.rate_hz > 0.9e9 / f64::from(1 << BITS);
            prop_assert!(signal.values.len() <= most && (signal.values.len() > most / 2 - 1 || is_finest));
            let total: f64 = requests.iter().map(|request| request.2).sum();
            let scale = total / (end as f64 * 1e-9);
            // What had left the narrow rings when a long request came lies evenly over wider bins; the volume is there.
            let moved: f64 = signal.values.iter().take(signal.values.len() - 1).sum::<f64>() / signal.rate_hz
                + signal.values.last().unwrap() * (signal.duration_s - (signal.values.len() - 1) as f64 / signal.rate_hz);
            prop_assert!((moved / total - 1.0).abs() < 1e-9, "{moved} {total}");
            for (found, expected) in signal.values.iter().zip(by_definition(&requests, &signal, end)) {
                prop_assert!((found - expected).abs() < 1e-6 * scale * signal.values.len() as f64, "{found} {expected}");
            }
        }

        #[test]
        fn the_order_of_arrival_means_nothing(requests in requests(), seed in 0..1000usize) {
            let end = requests.iter().map(|request| request.1).max().unwrap();
            let mut other = requests.clone();
            for i in (1..other.len()).rev() {
                other.swap(i, (i * 7919 + seed * 104_729) % (i + 1));
            }
            let (a, b) = (filled(&requests).window(0, end, 512), filled(&other).window(0, end, 512));
            let top = a.values.iter().copied().fold(0.0, f64::max);
            for (a, b) in a.values.iter().zip(&b.values) {
                prop_assert!((a - b).abs() <= 1e-9 * top);
            }
        }
    }

    #[test]
    fn a_request_of_any_length_costs_a_few_writes() {
        let mut octaves = Octaves::new(BITS);
        octaves.advance(1 << 40);
        for length in [1i64, 1 << 9, 1 << 12, 1 << 20, 1 << 30, (1 << 39) + 12_345] {
            let before = octaves.writes();
            octaves.add((1 << 40) - length, 1 << 40, 1.0);
            let writes = octaves.writes() - before;
            // Beyond the widest bins (2³² ns here), it is one more for each of them.
            assert!(writes <= 4 * N_RINGS as u64 + (length >> 32) as u64, "{length} ns: {writes}");
        }
    }

    #[test]
    fn an_hour_of_silence_costs_no_more_than_all_bins() {
        let mut octaves = filled(&[(0, 1 << 20, 1e6)]);
        let before = octaves.writes();
        octaves.advance(3_600_000_000_000);
        assert!(octaves.writes() - before <= (N_BINS * N_RINGS) as u64);
        let signal = octaves.window(0, 3_600_000_000_000, 1024);
        assert!((signal.volume_bytes() / 1e6 - 1.0).abs() < 1e-9);
    }

    #[test]
    fn what_no_ring_reaches_is_forgotten_without_harm() {
        let mut octaves = Octaves::new(0);
        octaves.advance(1 << 50);
        octaves.add(5, 10, 1.0);
        octaves.add(0, 1 << 50, 1.0);
        assert!(octaves.window(0, 1 << 50, 512).values.iter().all(|value| value.is_finite()));
    }
}
