//! What a page may do: run and wear exactly what it was made with, fetch nothing and send nothing.
//!
//! The script and the style are named by their hash, so that whatever else should come to stand in the page, by a name that was not escaped
//! say, is neither run nor worn. Widths in attributes are the page's own numbers; a hash cannot name those.

use std::fmt::Write;

/// The element that states the policy of a page with this script and this style, as they stand between the tags.
pub(crate) fn content_security_policy(script: &str, style: &str) -> String {
    let script = if script.is_empty() { "'none'".to_owned() } else { source(script) };
    format!(
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; script-src {script}; \
         style-src 'unsafe-inline'; style-src-elem {}; style-src-attr 'unsafe-inline'; img-src data:; base-uri 'none'; \
         form-action 'none'\">",
        source(style)
    )
}

fn source(text: &str) -> String {
    format!("'sha256-{}'", base64(&sha256(text.as_bytes())))
}

fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for three in bytes.chunks(3) {
        let bits = (0..3).fold(0, |bits, i| bits << 8 | u32::from(three.get(i).copied().unwrap_or(0)));
        for i in 0..4 {
            let letter = char::from(LETTERS[(bits >> (18 - 6 * i)) as usize & 63]);
            let _ = write!(text, "{}", if i <= three.len() { letter } else { '=' });
        }
    }
    text
}

/// SHA-256 (FIPS 180-4). The script and style of a page are all it is for: tens of kilobytes.
fn sha256(bytes: &[u8]) -> [u8; 32] {
    let mut padded = bytes.to_vec();
    padded.push(0x80);
    padded.resize(padded.len().next_multiple_of(64), 0);
    if padded.len() - bytes.len() < 9 {
        padded.resize(padded.len() + 64, 0);
    }
    let end = padded.len();
    padded[end - 8..].copy_from_slice(&(8 * bytes.len() as u64).to_be_bytes());

    // The first bits of the fractional parts of the square and cube roots of the first primes.
    let mut hash: [u32; 8] = first_primes().map(|prime| root_bits(prime, 2));
    let round_constants: [u32; 64] = first_primes().map(|prime| root_bits(prime, 3));
    for block in padded.as_chunks::<64>().0 {
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
        let [mut a, mut b, mut c, mut d, mut e, mut f, mut g, mut h] = hash;
        for (word, constant) in w.into_iter().zip(round_constants) {
            let s1 = e.rotate_right(6) ^ e.rotate_right(11) ^ e.rotate_right(25);
            let choice = e & f ^ !e & g;
            let t1 = h.wrapping_add(s1).wrapping_add(choice).wrapping_add(constant).wrapping_add(word);
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
    let mut digest = [0; 32];
    for (bytes, word) in digest.as_chunks_mut::<4>().0.iter_mut().zip(hash) {
        *bytes = word.to_be_bytes();
    }
    digest
}

fn first_primes<const N: usize>() -> [u64; N] {
    let mut primes = (2u64..).filter(|n| (2..*n).all(|divisor| n % divisor != 0));
    std::array::from_fn(|_| primes.next().unwrap_or(0))
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

/// Fails unless a page has the one script and the one style that its policy names, and no other way to run or wear anything.
#[cfg(test)]
#[track_caller]
pub(crate) fn assert_keeps_its_policy(html: &str) {
    let between = |begin: &str, end: &str| -> Vec<&str> {
        html.split(begin).skip(1).filter_map(|rest| rest.split(end).next()).collect()
    };
    let (scripts, styles) = (between("<script>", "</script>"), between("<style>", "</style>"));
    assert!(scripts.len() <= 1 && styles.len() == 1, "{} scripts, {} styles", scripts.len(), styles.len());
    let policy = content_security_policy(scripts.first().unwrap_or(&""), styles[0]);
    assert!(html.contains(&policy), "{policy}");
    assert_eq!(html.matches("Content-Security-Policy").count(), 1);
    assert!(!policy.contains("script-src 'unsafe-inline'"));
    // Data that the script reads are no script.
    let n_data = html.matches("<script type=\"application/json\"").count();
    assert_eq!(html.matches("<script").count(), scripts.len() + n_data);
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn base64_is_padded() {
        assert_eq!(
            ["", "f", "fo", "foo", "foob"].map(|text| base64(text.as_bytes())),
            ["", "Zg==", "Zm8=", "Zm9v", "Zm9vYg=="]
        );
    }
}
