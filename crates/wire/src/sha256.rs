//! A hash that nobody can forge.

/// SHA-256 (FIPS 180-4). For short texts: command lines, the script and style of a page.
pub fn sha256(bytes: &[u8]) -> [u8; 32] {
    let (blocks, rest) = bytes.as_chunks::<64>();
    // Behind the text a bit that is set, zeros, and its length in bits: in one block more, or two.
    let mut last = [0; 128];
    last[..rest.len()].copy_from_slice(rest);
    last[rest.len()] = 0x80;
    let end = if rest.len() < 56 { 64 } else { 128 };
    last[end - 8..end].copy_from_slice(&(8 * bytes.len() as u64).to_be_bytes());

    // The first bits of the fractional parts of the square and cube roots of the first primes.
    let mut hash: [u32; 8] = first_primes().map(|prime| root_bits(prime, 2));
    let round_constants: [u32; 64] = first_primes().map(|prime| root_bits(prime, 3));
    for block in blocks.iter().chain(last[..end].as_chunks::<64>().0) {
        mix(&mut hash, block, &round_constants);
    }
    let mut digest = [0; 32];
    for (bytes, word) in digest.as_chunks_mut::<4>().0.iter_mut().zip(hash) {
        *bytes = word.to_be_bytes();
    }
    digest
}

fn mix(hash: &mut [u32; 8], block: &[u8; 64], round_constants: &[u32; 64]) {
    let mut w = [0u32; 64];
    for (word, bytes) in w.iter_mut().zip(block.as_chunks::<4>().0) {
        *word = u32::from_be_bytes(*bytes);
    }
    for i in 16..64 {
        let (early, late) = (w[i - 15], w[i - 2]);
        let s0 = early.rotate_right(7) ^ early.rotate_right(18) ^ early >> 3;
        let s1 = late.rotate_right(17) ^ late.rotate_right(19) ^ late >> 10;
        w[i] = w[i - 16].wrapping_add(s0).wrapping_add(w[i - 7]).wrapping_add(s1);
    }
    let [mut a, mut b, mut c, mut d, mut e, mut f, mut g, mut h] = *hash;
    for (word, constant) in w.iter().zip(round_constants) {
        let s1 = e.rotate_right(6) ^ e.rotate_right(11) ^ e.rotate_right(25);
        let choice = e & f ^ !e & g;
        let t1 = h.wrapping_add(s1).wrapping_add(choice).wrapping_add(*constant).wrapping_add(*word);
        let s0 = a.rotate_right(2) ^ a.rotate_right(13) ^ a.rotate_right(22);
        let majority = a & b ^ a & c ^ b & c;
        let t2 = s0.wrapping_add(majority);
        (h, g, f, e) = (g, f, e, d.wrapping_add(t1));
        (d, c, b, a) = (c, b, a, t1.wrapping_add(t2));
    }
    for (sum, word) in hash.iter_mut().zip([a, b, c, d, e, f, g, h]) {
        *sum = sum.wrapping_add(word);
    }
}

fn first_primes<const N: usize>() -> [u64; N] {
    let mut primes = (2u64..).filter(|n| (2..*n).all(|divisor| n % divisor != 0));
    core::array::from_fn(|_| primes.next().unwrap_or(0))
}

/// The first 32 bits behind the point of the `degree`-th root of a small number.
fn root_bits(number: u64, degree: u32) -> u32 {
    // The largest x with x^degree ≤ number · 2^(32 · degree) is the root times 2^32.
    let target = u128::from(number) << (32 * degree);
    let mut root: u128 = 0;
    for bit in (0..40).rev() {
        let larger = root | 1 << bit;
        if larger.pow(degree) <= target {
            root = larger;
        }
    }
    root as u32
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::{format, string::String, vec};

    fn hex(bytes: &[u8]) -> String {
        sha256(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
    }

    #[test]
    fn hashes_are_those_of_the_standard() {
        assert_eq!(hex(b""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
        assert_eq!(hex(b"abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
        assert_eq!(
            hex(b"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"
        );
        assert_eq!(
            hex(&vec![b'a'; 1_000_000]),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0"
        );
    }
}
