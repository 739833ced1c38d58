//! Output of exporters and programs: anything is read or refused, and what is shown of it can be read again.
#![no_main]

use iotide_ledger::{Exported, Format};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let exported = Exported::read(&String::from_utf8_lossy(bytes));
    let mut text = String::new();
    Exported::write(&[(vec![("node", "n")], &exported)], Format::Text, &mut text);
    let again = Exported::read(&text);
    assert_eq!((again.n_refused, again.n_samples()), (0, exported.n_samples()));
});
