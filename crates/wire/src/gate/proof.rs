//! How a program and an arbiter on another machine know each other.
//!
//! ```text
//! program  ─▶ GateClaim      who asks, for which user and job, and a number that was never used
//! arbiter  ─▶ GateChallenge  a number of its own, and a proof that it has the key
//! program  ─▶ proof          32 bytes; from then on they speak as they do over a socket in the file system
//! ```
//!
//! The arbiter has the key of the site. From that, each user's key is made ([`GateKey::of_user`]), which is good for claims of that user and of nobody
//! else. A proof is a keyed hash of all that was sent on this connection, of the side that sends it and of both numbers: on another
//! connection, or from the other side, it proves nothing. What is sent afterwards is neither hidden nor signed.

use crate::gate::GateHello;
use crate::sha256::hmac_sha256;

/// Who asks from another machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GateClaim {
    /// The process and its job.
    pub hello: GateHello,
    /// The user whose program it is.
    pub user: u32,
    /// A number that is used once.
    pub nonce: [u8; 32],
}

impl GateClaim {
    /// Its size.
    pub const SIZE: usize = 16 + GateHello::SIZE + 32;
    /// How it begins.
    pub const MAGIC: [u8; 8] = *b"iogate02";

    /// As bytes.
    pub fn encode(&self) -> [u8; Self::SIZE] {
        let mut bytes = [0; Self::SIZE];
        bytes[..8].copy_from_slice(&Self::MAGIC);
        bytes[8..12].copy_from_slice(&self.user.to_le_bytes());
        bytes[16..16 + GateHello::SIZE].copy_from_slice(&self.hello.encode());
        bytes[16 + GateHello::SIZE..].copy_from_slice(&self.nonce);
        bytes
    }

    /// From bytes; `None` if they are something else.
    pub fn decode(bytes: &[u8; Self::SIZE]) -> Option<Self> {
        let (magic, rest) = bytes.split_first_chunk::<8>()?;
        let (user, rest) = rest.split_first_chunk::<4>()?;
        let (unused, rest) = rest.split_first_chunk::<4>()?;
        let (hello, rest) = rest.split_first_chunk::<{ GateHello::SIZE }>()?;
        if *magic != Self::MAGIC || *unused != [0; 4] {
            return None;
        }
        let hello = GateHello::decode(hello)?;
        Some(Self { hello, user: u32::from_le_bytes(*user), nonce: *rest.first_chunk::<32>()? })
    }
}

/// Answer of an arbiter to a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GateChallenge {
    /// A number that is used once.
    pub nonce: [u8; 32],
    /// That the arbiter has the key.
    pub proof: [u8; 32],
}

impl GateChallenge {
    /// Its size.
    pub const SIZE: usize = 64;

    /// The answer of an arbiter that knows the user's key.
    pub fn new(key: &GateKey, claim: &GateClaim, nonce: [u8; 32]) -> Self {
        Self { nonce, proof: key.proof(GateSide::Arbiter, claim, &nonce) }
    }

    /// As bytes.
    pub fn encode(&self) -> [u8; Self::SIZE] {
        let mut bytes = [0; Self::SIZE];
        bytes[..32].copy_from_slice(&self.nonce);
        bytes[32..].copy_from_slice(&self.proof);
        bytes
    }

    /// Returns the program's answer to it; `None` if this is no arbiter that has the key.
    pub fn answer(bytes: &[u8; Self::SIZE], key: &GateKey, claim: &GateClaim) -> Option<[u8; 32]> {
        let (nonce, proof) = bytes.split_first_chunk::<32>()?;
        let is_ours = key.is_proof(GateSide::Arbiter, claim, nonce, proof.first_chunk::<32>()?);
        is_ours.then(|| key.proof(GateSide::Program, claim, nonce))
    }
}

/// Who proves something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GateSide {
    /// Who asks.
    Program,
    /// Who is asked.
    Arbiter,
}

/// Secret that a user and the arbiters of a site share, and no other user has.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct GateKey([u8; 32]);

impl core::fmt::Debug for GateKey {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("GateKey(…)")
    }
}

impl GateKey {
    /// The key of a user at a site with this key.
    pub fn of_user(site: &[u8; 32], user: u32) -> Self {
        Self(hmac_sha256(site, &[b"iotide gate 1 user", &user.to_le_bytes()]))
    }

    /// Its bytes, to be kept where only that user can read them.
    pub fn bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// That one side of a connection has this key.
    pub fn proof(&self, side: GateSide, claim: &GateClaim, nonce: &[u8; 32]) -> [u8; 32] {
        let side: &[u8] = match side {
            GateSide::Program => b"iotide gate 1 program",
            GateSide::Arbiter => b"iotide gate 1 arbiter",
        };
        hmac_sha256(&self.0, &[side, nonce, &claim.encode()])
    }

    /// Whether that is proved. Takes a time that does not tell how much of the proof is right.
    pub fn is_proof(&self, side: GateSide, claim: &GateClaim, nonce: &[u8; 32], proof: &[u8; 32]) -> bool {
        let right = self.proof(side, claim, nonce);
        let differing = right.iter().zip(proof).fold(0, |bits, (a, b)| bits | (a ^ b));
        core::hint::black_box(differing) == 0
    }
}

/// A file with a key, as text: 64 hexadecimal digits of a site, or `1000:` and 64 digits of that user.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum GateKeyText {
    /// Good for all users.
    Site([u8; 32]),
    /// Good for one.
    User(u32, GateKey),
}

impl GateKeyText {
    /// No such file is longer.
    pub const MAX_LEN: usize = 128;

    /// Reads it; `None` if it is something else.
    pub fn parse(text: &[u8]) -> Option<Self> {
        let text = text.trim_ascii();
        match text.iter().position(|&byte| byte == b':') {
            None => Some(Self::Site(key_bytes(text)?)),
            Some(at) => {
                let user = crate::decimal(&text[..at])?;
                Some(Self::User(u32::try_from(user).ok()?, GateKey(key_bytes(&text[at + 1..])?)))
            }
        }
    }

    /// The key by which a program of `user` proves itself; `None` if this one is another user's.
    pub fn of_user(&self, user: u32) -> Option<GateKey> {
        match self {
            Self::Site(site) => Some(GateKey::of_user(site, user)),
            Self::User(of, key) => (*of == user).then_some(*key),
        }
    }
}

/// The bytes of a key, of 64 hexadecimal digits; `None` if they are not.
pub fn key_bytes(digits: &[u8]) -> Option<[u8; 32]> {
    let mut bytes = [0; 32];
    if digits.len() != 64 {
        return None;
    }
    for (byte, pair) in bytes.iter_mut().zip(digits.as_chunks::<2>().0) {
        let digit = |digit: u8| char::from(digit).to_digit(16).map(|value| value as u8);
        *byte = digit(pair[0])? << 4 | digit(pair[1])?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claim(user: u32, job: &str, nonce: u8) -> GateClaim {
        GateClaim { hello: GateHello::new(1, job.as_bytes()), user, nonce: [nonce; 32] }
    }

    #[test]
    fn a_claim_is_heard_as_it_was_made() {
        let made = claim(1000, "4711", 9);
        assert_eq!(GateClaim::decode(&made.encode()), Some(made));
        for at in [0, 12, 16, 28] {
            let mut wrong = made.encode();
            wrong[at] ^= 0xff;
            assert_eq!(GateClaim::decode(&wrong), None, "{at}");
        }
    }

    #[test]
    fn a_proof_holds_for_its_key_side_claim_and_connection_only() {
        let site = [7; 32];
        let key = GateKey::of_user(&site, 1000);
        let made = claim(1000, "1", 1);
        let proof = key.proof(GateSide::Program, &made, &[2; 32]);
        let holds = |key: &GateKey, side, claim: &GateClaim, nonce: u8, proof: &[u8; 32]| {
            key.is_proof(side, claim, &[nonce; 32], proof)
        };
        assert!(holds(&key, GateSide::Program, &made, 2, &proof));
        assert!(!holds(&GateKey::of_user(&site, 1001), GateSide::Program, &made, 2, &proof), "another user");
        assert!(
            !holds(&GateKey::of_user(&[8; 32], 1000), GateSide::Program, &made, 2, &proof),
            "another site"
        );
        assert!(!holds(&key, GateSide::Arbiter, &made, 2, &proof), "the other side");
        assert!(!holds(&key, GateSide::Program, &made, 3, &proof), "another connection");
        assert!(!holds(&key, GateSide::Program, &claim(1000, "2", 1), 2, &proof), "another job");
        assert!(!holds(&key, GateSide::Program, &claim(1000, "1", 2), 2, &proof), "another ask");
        let mut cut = proof;
        cut[31] ^= 1;
        assert!(!holds(&key, GateSide::Program, &made, 2, &cut));
    }

    #[test]
    fn a_program_answers_an_arbiter_with_the_key_and_nobody_else() {
        let (key, made) = (GateKey::of_user(&[7; 32], 5), claim(5, "1", 1));
        let challenge = GateChallenge::new(&key, &made, [3; 32]);
        let answer = GateChallenge::answer(&challenge.encode(), &key, &made).unwrap();
        assert!(key.is_proof(GateSide::Program, &made, &[3; 32], &answer));
        let other = GateChallenge::new(&GateKey::of_user(&[8; 32], 5), &made, [3; 32]);
        assert_eq!(GateChallenge::answer(&other.encode(), &key, &made), None);
        // What the program itself has said, sent back to it.
        let mirrored = GateChallenge { nonce: [3; 32], proof: answer };
        assert_eq!(GateChallenge::answer(&mirrored.encode(), &key, &made), None);
    }

    #[test]
    fn a_file_has_the_key_of_a_site_or_of_a_user() {
        let digits = [b'a'; 64];
        let site = GateKeyText::parse(&digits).unwrap();
        assert!(site == GateKeyText::Site([0xaa; 32]));
        assert_eq!(site.of_user(5), Some(GateKey::of_user(&[0xaa; 32], 5)));
        let mut text = *b"1000:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\n";
        let user = GateKeyText::parse(&text).unwrap();
        assert_eq!((user.of_user(1000).is_some(), user.of_user(0).is_some()), (true, false));
        text[20] = b'g';
        for wrong in [&text[..], b"", b":", b"1000:", &digits[1..], b"4294967296:aa", &[b'a'; 65]] {
            assert!(GateKeyText::parse(wrong).is_none());
        }
    }
}
