//! Any bytes as a page of counters: refused, or within its bounds; sums of a page cut anywhere are no more than those of the whole.
#![no_main]

use iotide_wire::Op;
use iotide_wire::page::{
    Counters, HEADER_SIZE, LANE_SIZE, MAGIC, MAX_FILE_SYSTEMS, MAX_LANES, MAX_USER_COUNTERS, PageHeader,
    PageText, VERSION, is_counter_name, lane_at,
};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let _ = PageHeader::decode(bytes);
    // Further in: a header that begins as it should, the rest as it comes.
    let mut page = MAGIC.to_vec();
    for word in [VERSION, HEADER_SIZE as u32, LANE_SIZE as u32] {
        page.extend_from_slice(&word.to_le_bytes());
    }
    page.extend_from_slice(bytes);
    let n_cut = page.len();
    page.resize(page.len().max(lane_at(2)), bytes.last().copied().unwrap_or(0));
    let Ok(header) = PageHeader::decode(&page) else { return };
    assert!(header.lanes_used <= header.about.n_lanes as usize && header.about.n_lanes as usize <= MAX_LANES);
    assert!(header.file_systems().count() <= MAX_FILE_SYSTEMS);
    assert!(header.user_counters().count() <= MAX_USER_COUNTERS);
    assert!(header.user_counters().all(|counter| is_counter_name(counter.name.as_bytes())));
    assert!(PageText::ALL.iter().all(|text| header.text(*text).len() <= text.max_len()));
    let _ = (header.arguments().count(), header.life(Some(1)), header.life(None));
    let sum = |page: &[u8]| {
        let mut counters = Box::new(Counters::ZERO);
        for i in 0..header.lanes_used {
            let part = |at: usize| lane_at(at).min(page.len());
            counters.add_lane(&page[part(i)..part(i + 1)]);
        }
        counters
    };
    let (whole, cut) = (sum(&page), sum(&page[..n_cut.min(page.len())]));
    for op in Op::ALL {
        assert!(cut.own(op).bytes <= whole.own(op).bytes);
    }
    assert!(cut.io_ns() <= whole.io_ns() && cut.mpi_ns() <= whole.mpi_ns());
    let mut raised = cut.clone();
    raised.raise(&whole);
    assert_eq!(raised, whole);
});
