//! Which arbiter to ask about which part of which file: the value of `IOTIDE_GATE`.
//!
//! ```text
//! unix:/run/scratch.gate                                        one arbiter, for every file
//! /scratch=tcp:10.0.0.5:7070;/project=unix:/run/project.gate    by path; nobody is asked about other files
//! /scratch=tcp:10.0.0.5:7070,tcp:10.0.0.6:7070@1M               by offset: 1 MiB at the first, the next at the second, and so on
//! ```

/// So many arbiters are asked, and so many rules are read; what is beyond them is not held.
pub const MAX_GATE_TARGETS: usize = 16;
const MAX_RULES: usize = 16;
/// How much of a file lies at one target before the next, unless the rule says otherwise.
const USUAL_STRIPE: u64 = 1 << 20;

/// The arbiters of files below a path.
#[derive(Clone, Copy, Debug)]
pub struct GateRule<'a> {
    /// The path; empty for all files.
    pub prefix: &'a [u8],
    /// The number of its first arbiter.
    pub first: usize,
    /// How many it has, from that on.
    pub n_targets: usize,
    /// How much of a file lies at one target before the next.
    pub stripe: u64,
}

impl GateRule<'_> {
    /// How many of `bytes` from `position` on lie at the `n`th target.
    pub fn share(&self, n: usize, position: u64, bytes: u64) -> u64 {
        if self.n_targets == 1 {
            return bytes;
        }
        // A position is below 2^63, a stripe at most 2^40, and there are few targets.
        let cycle = self.stripe * self.n_targets as u64;
        let (from, to) = (position % cycle, position % cycle + bytes % cycle);
        let overlap = |begin: u64| to.min(begin + self.stripe).saturating_sub(from.max(begin));
        let own = n as u64 * self.stripe;
        bytes / cycle * self.stripe + overlap(own) + overlap(cycle + own)
    }
}

/// All rules.
#[derive(Clone, Debug)]
pub struct GateMap<'a> {
    rules: [GateRule<'a>; MAX_RULES],
    n_rules: usize,
    addresses: [&'a [u8]; MAX_GATE_TARGETS],
    /// How many arbiters there are.
    pub n_targets: usize,
    /// The rule of files that no other one is about, counted from 1; 0 if there is none.
    pub of_others: u8,
}

impl Default for GateMap<'_> {
    fn default() -> Self {
        Self::new()
    }
}

impl<'a> GateMap<'a> {
    /// Returns no rules.
    pub const fn new() -> Self {
        let none = GateRule { prefix: b"", first: 0, n_targets: 0, stripe: USUAL_STRIPE };
        Self {
            rules: [none; MAX_RULES],
            n_rules: 0,
            addresses: [b""; MAX_GATE_TARGETS],
            n_targets: 0,
            of_others: 0,
        }
    }

    /// Adds what a text says; what makes no sense says nothing.
    pub fn read(&mut self, text: &'a [u8]) {
        let mut rest = text;
        while !rest.is_empty() && self.n_rules < MAX_RULES {
            let (rule, after) = split(rest, b';', |next| is_address(next) || next.starts_with(b"/"));
            self.add(rule);
            rest = after;
        }
    }

    fn add(&mut self, text: &'a [u8]) {
        let (prefix, mut rest) = match text.iter().position(|&byte| byte == b'=') {
            Some(at) if text.starts_with(b"/") => (&text[..at], &text[at + 1..]),
            _ => (&b""[..], text),
        };
        let mut rule = GateRule { prefix, first: self.n_targets, n_targets: 0, stripe: USUAL_STRIPE };
        while !rest.is_empty() {
            let (mut address, after) = split(rest, b',', is_address);
            rest = after;
            if rest.is_empty() && rule.n_targets > 0 {
                (address, rule.stripe) = with_stripe(address);
            }
            let Some(slot) = self.addresses.get_mut(rule.first + rule.n_targets) else { return };
            if !is_address(address) {
                return;
            }
            *slot = address;
            rule.n_targets += 1;
        }
        if rule.n_targets == 0 {
            return;
        }
        self.n_targets = rule.first + rule.n_targets;
        self.rules[self.n_rules] = rule;
        self.n_rules += 1;
        if prefix.is_empty() && self.of_others == 0 {
            self.of_others = self.n_rules as u8;
        }
    }

    /// All rules.
    pub fn rules(&self) -> &[GateRule<'a>] {
        &self.rules[..self.n_rules]
    }

    /// The rule of a number that counts from 1.
    #[inline(always)]
    pub fn rule(&self, number: u8) -> Option<&GateRule<'a>> {
        self.rules.get(usize::from(number).wrapping_sub(1))
    }

    /// Where a target's arbiter listens.
    pub fn address(&self, target: usize) -> &'a [u8] {
        self.addresses.get(target).copied().unwrap_or(b"")
    }

    /// The number of the rule with the longest prefix of a path; that of all other files if there is none.
    pub fn rule_of(&self, path: &[u8]) -> u8 {
        let mut found = (0, self.of_others);
        for (rule, number) in self.rules[..self.n_rules].iter().zip(1..) {
            if rule.prefix.len() > found.0 && is_below(path, rule.prefix) {
                found = (rule.prefix.len(), number);
            }
        }
        found.1
    }
}

/// Whether a path is `folder` or below it.
fn is_below(path: &[u8], folder: &[u8]) -> bool {
    let folder = folder.strip_suffix(b"/").unwrap_or(folder);
    path.strip_prefix(folder).is_some_and(|rest| rest.is_empty() || rest[0] == b'/')
}

fn is_address(text: &[u8]) -> bool {
    text.starts_with(b"unix:") || text.starts_with(b"tcp:")
}

/// The text up to a separator that something follows which can begin there, and the text after; a path may have separators of its own.
fn split(text: &[u8], separator: u8, begins: impl Fn(&[u8]) -> bool) -> (&[u8], &[u8]) {
    let at = (0..text.len()).find(|&at| text[at] == separator && begins(&text[at + 1..]));
    at.map_or((text, b""), |at| (&text[..at], &text[at + 1..]))
}

/// An address and the stripe that follows it.
fn with_stripe(text: &[u8]) -> (&[u8], u64) {
    let stripe = text.iter().rposition(|&byte| byte == b'@').and_then(|at| {
        let (digits, unit) = match text[at + 1..].split_last()? {
            (b'k' | b'K', digits) => (digits, 1 << 10),
            (b'm' | b'M', digits) => (digits, 1 << 20),
            (b'g' | b'G', digits) => (digits, 1 << 30),
            _ => (&text[at + 1..], 1),
        };
        let stripe = crate::decimal(digits)?.checked_mul(unit)?;
        (4096..=1 << 40).contains(&stripe).then_some((&text[..at], stripe))
    });
    stripe.unwrap_or((text, USUAL_STRIPE))
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;

    fn parsed(text: &str) -> GateMap<'_> {
        let mut map = GateMap::new();
        map.read(text.as_bytes());
        map
    }

    #[test]
    fn one_address_is_for_every_file_whatever_its_path_has() {
        for text in ["unix:/run/gate", "tcp:10.0.0.5:7070", "unix:/tmp/a;b,c=d@5"] {
            let targets = parsed(text);
            assert_eq!((targets.n_targets, targets.of_others), (1, 1), "{text}");
            assert_eq!(targets.address(0), text.as_bytes());
            assert_eq!(targets.rule_of(b"/any/file"), 1);
        }
    }

    #[test]
    fn the_longest_path_decides_and_other_files_have_nobody() {
        let targets = parsed("/scratch=tcp:1.2.3.4:1;/scratch/fast=unix:/f,unix:/g@64k");
        let rules =
            ["/scratch/a", "/scratch/fast/a", "/scratched", "/home"].map(|p| targets.rule_of(p.as_bytes()));
        assert_eq!(rules, [1, 2, 0, 0]);
        assert_eq!((targets.n_targets, targets.of_others), (3, 0));
        assert_eq!(
            targets.rule(2).map(|rule| (rule.first, rule.n_targets, rule.stripe)),
            Some((1, 2, 64 << 10))
        );
        assert_eq!(targets.address(2), b"unix:/g");
        assert_eq!(parsed("/scratch=unix:/a;unix:/b").rule_of(b"/home"), 2);
    }

    #[test]
    fn what_makes_no_sense_asks_nobody() {
        for text in ["", "nothing", "/scratch=", "/scratch=ftp:x", ";;,,", "/=;/="] {
            assert_eq!(parsed(text).n_targets, 0, "{text}");
        }
        let many = "unix:/a,".repeat(40) + "unix:/a";
        assert_eq!(parsed(&many).n_targets, 0, "more arbiters than are asked");
    }

    #[test]
    fn the_shares_of_all_targets_are_the_request() {
        let targets = parsed("unix:/a,unix:/b,unix:/c@4096");
        let rule = targets.rule(1).unwrap();
        for position in [0, 1, 4095, 4096, 10_000, 12_287, 1 << 40, (1 << 62) + 5] {
            for bytes in [0, 1, 4096, 5000, 12_288, 100_000, 1 << 31] {
                let mut by_definition = [0; 3];
                for at in (position..position + bytes.min(200_000)).step_by(1) {
                    by_definition[(at / 4096 % 3) as usize] += 1;
                }
                let shares = [0, 1, 2].map(|n| rule.share(n, position, bytes));
                assert_eq!(shares.iter().sum::<u64>(), bytes, "{position} {bytes}");
                if bytes <= 200_000 {
                    assert_eq!(shares, by_definition, "{position} {bytes}");
                }
            }
        }
    }
}
