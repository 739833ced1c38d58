//! Any bytes that an arbiter reads before it knows who speaks, any that a program reads from whoever answers, any key file, any `IOTIDE_GATE`, and any
//! layout:
//! nothing is believed without the key, and a request is divided among targets without a byte too many.
#![no_main]

use iotide_sched::Layout;
use iotide_wire::{
    GateChallenge, GateClaim, GateHello, GateKey, GateKeyText, GateMap, GateMessage, GateSide,
    MAX_GATE_TARGETS,
};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let key = GateKey::of_user(&[7; 32], 1000);
    if let Some(claim) = bytes.first_chunk().and_then(GateClaim::decode) {
        assert_eq!(GateClaim::decode(&claim.encode()), Some(claim));
        let rest = &bytes[GateClaim::SIZE..];
        if let Some(proof) = rest.first_chunk() {
            assert!(!key.is_proof(GateSide::Program, &claim, &[9; 32], proof), "nobody can guess");
        }
    }
    let claim = GateClaim { hello: GateHello::new(1, b"4711"), user: 1000, nonce: [3; 32] };
    if let Some(challenge) = bytes.first_chunk() {
        assert_eq!(GateChallenge::answer(challenge, &key, &claim), None, "nobody can guess");
    }
    if let Some(hello) = bytes.first_chunk().and_then(GateHello::decode) {
        assert_eq!(GateHello::decode(&hello.encode()), Some(hello));
    }
    for message in
        bytes.chunks(GateMessage::SIZE).filter_map(|chunk| GateMessage::decode(chunk.first_chunk()?))
    {
        assert_eq!(GateMessage::decode(&message.encode()), Some(message));
    }
    if let Some(key) = GateKeyText::parse(bytes) {
        assert!(bytes.len() >= 64 && (0..3).filter(|user| key.of_user(*user).is_some()).count() != 2);
    }
    divided(bytes);
    if let Ok(text) = std::str::from_utf8(bytes) {
        for layout in [Layout::of_lustre(text), Layout::of_beegfs(text)].into_iter().flatten() {
            let n_found = layout.among(&[(0, 'a'), (1, 'b'), (2, 'c')]).map(|found| found.len());
            assert!(n_found.is_err() || layout.targets.is_empty() || n_found == Ok(layout.targets.len()));
        }
    }
});

/// Reads a map, and asks it about a file and a request that the first bytes say.
fn divided(bytes: &[u8]) {
    let mut map = GateMap::new();
    map.read(bytes);
    assert!(map.n_targets <= MAX_GATE_TARGETS);
    for at in 0..map.n_targets {
        assert!(map.address(at).starts_with(b"unix:") || map.address(at).starts_with(b"tcp:"));
    }
    let number = |at: usize| {
        u64::from_le_bytes(*bytes.get(at..).and_then(|rest| rest.first_chunk()).unwrap_or(&[5; 8]))
    };
    let (position, size) = (number(0) >> 1, number(8) >> 1);
    for rule in map.rules() {
        assert!(rule.first + rule.n_targets <= map.n_targets);
        let sum: u64 = (0..rule.n_targets).map(|n| rule.share(n, position, size)).sum();
        assert_eq!(sum, size);
        assert!(map.rule(map.rule_of(rule.prefix)).is_some() || rule.n_targets == 0);
    }
}
