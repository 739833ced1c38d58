//! The rhythm of a job's I/O as its nodes see it.
//!
//! A node samples its jobs ten times a second; rows arrive above about once a second, at times of the network. So a node evaluates its own part of a
//! job and sends the result up beside the row. Daemons above merge results and never evaluate the arrival of rows.

/// The I/O that a node expects of a job there, from its own samples. Times are of the node's clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outlook {
    /// When it was evaluated, since 1970.
    pub at_ns: u64,
    /// Bytes that the job had moved there by then.
    pub moved_bytes: u64,
    /// The period of the phases; 0 if there is none.
    pub period_ns: u64,
    /// The confidence in that, in millionths.
    pub confidence_ppm: u32,
    /// The probability that a gap between phases is idle, in millionths.
    pub idle_ppm: u32,
    /// When the next phase is expected, since 1970; 0 if none is.
    pub next_ns: u64,
    /// The next phase may begin earlier by this much.
    pub early_ns: u64,
    /// The next phase may begin later by this much.
    pub late_ns: u64,
    /// The duration of a phase.
    pub phase_ns: u64,
    /// Bytes of a phase.
    pub phase_bytes: u64,
}

/// Periods of nodes agree if the larger is at most this many percent longer.
const ALIKE_PERCENT: u64 = 5;

impl Outlook {
    /// Merges the outlooks of a job's nodes; `None` without any.
    ///
    /// Nodes whose periods agree within 5 % support each other. The job has a period if the supporters of one moved at least half of its bytes. Period and
    /// times are those of the supporter with the highest confidence; bytes are added; the confidence is a mean weighted by bytes, in which
    /// nodes that disagree count as zero. The order of the nodes changes nothing.
    pub fn merge(outlooks: impl IntoIterator<Item = Self>) -> Option<Self> {
        let mut all: Vec<Self> = outlooks.into_iter().collect();
        // The leader of equals is the same one in any order.
        all.sort_unstable_by_key(|it| {
            (
                std::cmp::Reverse((it.confidence_ppm, it.moved_bytes)),
                it.period_ns,
                it.next_ns,
                it.at_ns,
                it.phase_bytes,
            )
        });
        let moved = |of: &mut dyn Iterator<Item = &Self>| {
            of.map(|it| u128::from(it.moved_bytes.max(1))).sum::<u128>()
        };
        let total = moved(&mut all.iter());
        let support = |leader: &Self| moved(&mut all.iter().filter(|it| it.is_alike(leader)));
        // Of several with the same support the first: the most confident one.
        let mut leader: Option<(&Self, u128)> = None;
        for candidate in all.iter().filter(|it| it.period_ns > 0) {
            let support = support(candidate);
            if leader.is_none_or(|(_, most)| support > most) {
                leader = Some((candidate, support));
            }
        }
        let (at_ns, moved_bytes) = all
            .iter()
            .fold((0, 0u64), |(at, sum), it| (it.at_ns.max(at), sum.saturating_add(it.moved_bytes)));
        let merged = match leader.filter(|(_, support)| 2 * support >= total) {
            None => Self {
                period_ns: 0,
                next_ns: 0,
                phase_bytes: 0,
                ..*all.iter().find(|it| it.period_ns == 0).or(all.first())?
            },
            Some((leader, _)) => {
                let supporters = || all.iter().filter(|it| it.is_alike(leader));
                let weighted =
                    supporters().map(|it| u128::from(it.moved_bytes.max(1)) * u128::from(it.confidence_ppm));
                Self {
                    confidence_ppm: u32::try_from(weighted.sum::<u128>() / total).unwrap_or(u32::MAX),
                    phase_bytes: supporters().fold(0, |sum, it| it.phase_bytes.saturating_add(sum)),
                    phase_ns: supporters().map(|it| it.phase_ns).max().unwrap_or(0),
                    idle_ppm: supporters().map(|it| it.idle_ppm).min().unwrap_or(0),
                    ..*leader
                }
            }
        };
        Some(Self { at_ns, moved_bytes, ..merged })
    }

    fn is_alike(&self, other: &Self) -> bool {
        let (less, more) = (self.period_ns.min(other.period_ns), self.period_ns.max(other.period_ns));
        less > 0 && u128::from(more) * 100 <= u128::from(less) * u128::from(100 + ALIKE_PERCENT)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Downlink, Frame, Group, Hub, Inbox, Opened, Place, Uplink, Welcome};
    use super::*;
    use crate::{About, Counters, JobId, JobKey, Limits, Name};
    use proptest::prelude::*;

    fn every(period_s: u64, moved_bytes: u64, confidence_ppm: u32) -> Outlook {
        Outlook {
            at_ns: 7,
            moved_bytes,
            period_ns: period_s * 1_000_000_000,
            confidence_ppm,
            idle_ppm: 900_000,
            next_ns: 100_000_000_000,
            phase_bytes: moved_bytes / 10,
            ..Outlook::default()
        }
    }

    #[test]
    fn one_node_is_passed_on_as_it_is_and_nodes_in_step_add_their_bytes() {
        let one = every(9, 1000, 990_000);
        assert_eq!(Outlook::merge([one]), Some(one));
        let four = Outlook::merge([one; 4]).unwrap();
        assert_eq!(four, Outlook { moved_bytes: 4000, phase_bytes: 400, ..one });
        assert_eq!(Outlook::merge([]), None);
    }

    #[test]
    fn the_bytes_decide_whether_a_job_has_the_period_of_one_node() {
        let (steady, beats) = (every(0, 1000, 950_000), every(9, 1000, 990_000));
        let merged = Outlook::merge([steady, beats]).unwrap();
        assert_eq!((merged.period_ns, merged.confidence_ppm), (beats.period_ns, 495_000));
        let merged = Outlook::merge([steady, steady, beats]).unwrap();
        assert_eq!((merged.period_ns, merged.next_ns, merged.moved_bytes), (0, 0, 3000));
        // Two rhythms on two nodes: the larger one, if it has half of the bytes.
        assert_eq!(Outlook::merge([beats, every(60, 2000, 990_000)]).unwrap().period_ns, 60_000_000_000);
    }

    /// Sends all that one hub has to say to the other.
    fn send(up: &mut Uplink, from: &Hub, down: &mut Downlink, to: &mut Hub, now_ns: u64) {
        let mut bytes = Vec::new();
        assert!(up.fill(now_ns, from, usize::MAX, &mut bytes).unwrap());
        Inbox::default().take(&bytes, |frame| down.heard(now_ns, frame, to)).unwrap();
    }

    fn connect(child: &mut Hub, parent: &Hub) -> (Uplink, Downlink) {
        let Frame::Hello(hello) = Uplink::hello(child, Vec::new()) else { panic!("no hello") };
        let (down, version) = Downlink::begin(parent, &hello).unwrap();
        let welcome = Welcome { version, path: Downlink::path(parent), proof: Vec::new() };
        (Uplink::begin(child, &welcome).unwrap(), down)
    }

    #[test]
    fn an_outlook_is_the_same_at_every_level_of_a_tree() {
        let hub = |name: &str, instance: u64| {
            let own = Place { node: Name::cut(name.as_bytes()), instance };
            Hub::new(own, name == "root", Limits::default())
        };
        let (mut leaf, mut between, mut root) = (hub("leaf", 1), hub("between", 2), hub("root", 3));
        let key = JobKey { cluster: Name::default(), uid: 1000, id: JobId::made_of("4711"), start_ns: 1 };
        let opened = Opened {
            node: leaf.own.node.clone(),
            epoch: 0,
            key: key.clone(),
            about: About::default(),
            is_local: false,
            rank: 0,
            n_ranks: 0,
        };
        let (mut up, mut down) = connect(&mut leaf, &between);
        let (mut up_2, mut down_2) = connect(&mut between, &root);
        let group = Group { cluster: key.cluster, uid: key.uid, id: key.id, is_own: false };
        for at_ns in 1..5 {
            let outlook = Outlook { at_ns, ..every(9 + at_ns, 1000 * at_ns, 990_000) };
            let row = leaf.put_own(at_ns, &opened, &Counters::default(), 1, false, None).unwrap();
            leaf.set_outlook(row, outlook);
            // An older one comes late and changes nothing.
            leaf.set_outlook(row, Outlook { at_ns: at_ns - 1, ..every(3, 1, 1) });
            send(&mut up, &leaf, &mut down, &mut between, at_ns);
            send(&mut up_2, &between, &mut down_2, &mut root, at_ns);
            assert_eq!(between.news(at_ns, &group).unwrap().outlook, Some(outlook));
            assert_eq!(root.news(at_ns, &group).unwrap().outlook, Some(outlook));
            // What was said is not said again.
            let mut bytes = Vec::new();
            up.fill(at_ns, &leaf, usize::MAX, &mut bytes).unwrap();
            assert!(bytes.is_empty(), "{bytes:?}");
        }
    }

    proptest! {
        #[test]
        fn the_order_of_nodes_changes_nothing(
            nodes in prop::collection::vec((0u64..4, 0u64..3000, 0u32..1_000_000, 0u64..9), 0..8),
            turn in 0usize..8,
        ) {
            let mut all: Vec<Outlook> = nodes
                .into_iter()
                .map(|(period, moved, confidence, next)| Outlook { next_ns: next, ..every(period, moved, confidence) })
                .collect();
            let merged = Outlook::merge(all.clone());
            let turn = turn.min(all.len());
            all.rotate_left(turn);
            prop_assert_eq!(merged, Outlook::merge(all.clone()));
            all.reverse();
            prop_assert_eq!(merged, Outlook::merge(all));
        }
    }
}
