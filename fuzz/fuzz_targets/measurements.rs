//! Any bytes as measurements, in every form, and as a stored set of models. The first byte picks.
#![no_main]

use std::num::NonZeroUsize;

use iotide_scaling::{FitConfig, InputFormat, ModelSet, read};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Some((pick, bytes)) = bytes.split_first() else { return };
    let format = InputFormat::ALL.get(usize::from(*pick)).copied();
    let _ = read(bytes, format);
    let _ = ModelSet::from_bytes(bytes, FitConfig::default(), NonZeroUsize::MIN);
});
