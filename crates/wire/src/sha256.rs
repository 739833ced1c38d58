//! A hash that nobody can forge.

/// SHA-256 (FIPS 180-4). For short texts: command lines, the script and style of a page, proofs of a key.
pub fn sha256(bytes: &[u8]) -> [u8; 32] {
    sha256_of(&[bytes])
}

/// HMAC-SHA-256 (RFC 2104) of a message in parts, which nobody can make without the key.
pub fn hmac_sha256(key: &[u8; 32], message: &[&[u8]]) -> [u8; 32] {
    let padded = |filling: u8| {
        let mut block = [filling; 64];
        for (byte, key) in block.iter_mut().zip(key) {
            *byte ^= key;
        }
        block
    };
    let mut inner = Hash::new();
    inner.add(&padded(0x36));
    message.iter().for_each(|part| inner.add(part));
    sha256_of(&[&padded(0x5c), &inner.end()])
}

fn sha256_of(parts: &[&[u8]]) -> [u8; 32] {
    let mut hash = Hash::new();
    parts.iter().for_each(|part| hash.add(part));
    hash.end()
}

/// A hash that takes its text piece by piece.
struct Hash {
    words: [u32; 8],
    /// Bytes that do not fill a block yet.
    rest: [u8; 64],
    n_rest: usize,
    n_bytes: u64,
}

impl Hash {
    fn new() -> Self {
        Self { words: FIRST_WORDS, rest: [0; 64], n_rest: 0, n_bytes: 0 }
    }

    fn add(&mut self, mut bytes: &[u8]) {
        self.n_bytes += bytes.len() as u64;
        if self.n_rest > 0 {
            let (first, others) = bytes.split_at(bytes.len().min(64 - self.n_rest));
            self.rest[self.n_rest..self.n_rest + first.len()].copy_from_slice(first);
            self.n_rest += first.len();
            bytes = others;
            if self.n_rest < 64 {
                return;
            }
            mix(&mut self.words, &self.rest);
        }
        let (blocks, rest) = bytes.as_chunks::<64>();
        blocks.iter().for_each(|block| mix(&mut self.words, block));
        self.rest[..rest.len()].copy_from_slice(rest);
        self.n_rest = rest.len();
    }

    fn end(mut self) -> [u8; 32] {
        // Behind the text a bit that is set, zeros, and its length in bits: in one block more, or two.
        let mut last = [0; 128];
        last[..self.n_rest].copy_from_slice(&self.rest[..self.n_rest]);
        last[self.n_rest] = 0x80;
        let end = if self.n_rest < 56 { 64 } else { 128 };
        last[end - 8..end].copy_from_slice(&(8 * self.n_bytes).to_be_bytes());
        for block in last[..end].as_chunks::<64>().0 {
            mix(&mut self.words, block);
        }
        let mut digest = [0; 32];
        for (bytes, word) in digest.as_chunks_mut::<4>().0.iter_mut().zip(self.words) {
            *bytes = word.to_be_bytes();
        }
        digest
    }
}

/// The first bits of the fractional parts of the square and cube roots of the first primes.
const FIRST_WORDS: [u32; 8] = roots_of_primes(2);
const ROUND_CONSTANTS: [u32; 64] = roots_of_primes(3);

fn mix(hash: &mut [u32; 8], block: &[u8; 64]) {
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
    for (word, constant) in w.iter().zip(&ROUND_CONSTANTS) {
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

const fn roots_of_primes<const N: usize>(degree: u32) -> [u32; N] {
    let mut roots = [0; N];
    let (mut n_found, mut number) = (0, 2);
    while n_found < N {
        let mut divisor = 2;
        while number % divisor != 0 {
            divisor += 1;
        }
        if divisor == number {
            roots[n_found] = root_bits(number, degree);
            n_found += 1;
        }
        number += 1;
    }
    roots
}

/// The first 32 bits behind the point of the `degree`-th root of a small number.
const fn root_bits(number: u64, degree: u32) -> u32 {
    // The largest x with x^degree ≤ number · 2^(32 · degree) is the root times 2^32.
    let target = (number as u128) << (32 * degree);
    let mut root: u128 = 0;
    let mut bit = 40;
    while bit > 0 {
        bit -= 1;
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

    #[test]
    fn a_text_in_pieces_has_the_hash_of_the_whole() {
        let text: std::vec::Vec<u8> = (0..300u32).map(|n| n as u8).collect();
        for (a, b) in [(0, 0), (1, 63), (63, 64), (64, 65), (10, 138), (128, 300), (55, 56), (299, 300)] {
            assert_eq!(sha256_of(&[&text[..a], &text[a..b], &text[b..]]), sha256(&text), "{a} {b}");
        }
    }

    /// As Python's `hmac` makes them.
    #[test]
    fn keyed_hashes_are_those_of_others() {
        let hex = |bytes: [u8; 32]| -> String { bytes.iter().map(|byte| format!("{byte:02x}")).collect() };
        let key: [u8; 32] = core::array::from_fn(|n| n as u8);
        assert_eq!(
            hex(hmac_sha256(&key, &[b"what do ya ", b"want for nothing?"])),
            "099805f4ac310786968565c098db515cc50862b420ae31e20238312344bed36a"
        );
        assert_eq!(
            hex(hmac_sha256(&[0xaa; 32], &[&[0xdd; 150]])),
            "da24aa910b7923b24fe9398d21e5ef84b22832208ecd5f5c43f21e1d2281f124"
        );
    }
}
