//! Fields of frames: how each is written, and read.

use super::*;
use crate::metric::Metric;
use crate::parameters::Parameters;

/// Appends fields to a frame.
pub(super) struct Put<'a>(pub(super) &'a mut Vec<u8>);

impl Put<'_> {
    pub(super) fn byte(&mut self, byte: u8) -> &mut Self {
        self.0.push(byte);
        self
    }

    pub(super) fn number(&mut self, value: impl Into<u64>) -> &mut Self {
        put_varint(value.into(), |byte| self.0.push(byte));
        self
    }

    /// A difference that may be of either sign.
    pub(super) fn signed(&mut self, value: u64) -> &mut Self {
        self.number(zigzag(value as i64))
    }

    pub(super) fn bytes(&mut self, bytes: &[u8]) -> &mut Self {
        let bytes = &bytes[..bytes.len().min(MOST_TEXT)];
        self.number(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
        self
    }

    pub(super) fn text(&mut self, text: &str) -> &mut Self {
        self.bytes(iotide_wire::cut_text(text, MOST_TEXT).as_bytes())
    }

    pub(super) fn place(&mut self, place: &Place) -> &mut Self {
        self.text(place.node.as_str()).number(place.instance)
    }

    pub(super) fn path(&mut self, path: &[Place]) -> &mut Self {
        self.number(path.len() as u64);
        for place in path {
            self.place(place);
        }
        self
    }

    pub(super) fn node(&mut self, news: &NodeNews) -> &mut Self {
        self.text(news.node.as_str()).text(news.parent.as_str()).text(news.version.as_str());
        self.signed(news.skew_ns as u64).number(news.round_trip_ns).number(news.jobs).number(news.processes);
        self.number(news.bytes_read).number(news.bytes_written).number(news.losses).number(news.silent_ns)
    }

    pub(super) fn metric(&mut self, metric: &Metric) -> &mut Self {
        match metric {
            Metric::Io { op, layer, fs } => {
                self.byte(0).text(op.as_str()).text(layer.as_str()).text(fs.as_str())
            }
            Metric::Mpi { function } => self.byte(1).text(function.as_str()),
            Metric::Own { name, unit } => self.byte(2).text(name.as_str()).text(unit.as_str()),
            Metric::Threads => self.byte(3),
            Metric::OtherThreads => self.byte(4),
            Metric::Lost => self.byte(5),
            Metric::Killed { is_rank } => self.byte(if *is_rank { 7 } else { 6 }),
            Metric::System(counter) => self.byte(8).text(counter.as_str()),
        }
    }

    pub(super) fn opened(&mut self, row: &Opened) -> &mut Self {
        let Opened { node, epoch, key, about, is_local, rank, n_ranks } = row;
        self.text(node.as_str()).number(*epoch);
        self.text(key.cluster.as_str()).number(key.uid).text(key.id.as_str()).number(key.start_ns);
        for name in [&about.user, &about.app, &about.name, &about.partition, &about.build] {
            self.text(name.as_str());
        }
        self.text(about.account.as_str()).text(about.alias.as_str());
        self.text(&about.command).text(&about.run_dir).text(about.parameters.as_str());
        self.number(about.size).byte(u8::from(about.trust == Trust::Cgroup));
        self.byte(u8::from(*is_local)).number(*rank).number(*n_ranks)
    }

    pub(super) fn ask(&mut self, ask: &Ask) -> &mut Self {
        self.number(ask.id).text(ask.node.as_str()).byte(ask.n_passed);
        let Some(Question { wanted, from_s, to_s, points }) = &ask.question else {
            return self.byte(wanted::UNKNOWN);
        };
        match wanted {
            Wanted::Names => self.byte(wanted::NAMES),
            Wanted::All => self.byte(wanted::ALL),
            Wanted::Metric(name) => self.byte(wanted::METRIC).text(name.as_str()),
        };
        self.number(*from_s).number(*to_s).number(*points)
    }

    pub(super) fn outlook(&mut self, of: &Outlook) -> &mut Self {
        self.number(of.at_ns).number(of.moved_bytes).number(of.period_ns);
        self.number(of.confidence_ppm).number(of.idle_ppm);
        self.number(of.next_ns).number(of.early_ns).number(of.late_ns);
        self.number(of.phase_ns).number(of.phase_bytes)
    }

    pub(super) fn row_head(&mut self, row: &RowFrame<'_>) -> &mut Self {
        self.number(row.number).number(row.seq).number(row.at_ns);
        self.byte(u8::from(row.is_final)).number(row.n_running)
    }
}

/// Takes fields of a frame; `None` where they are damaged.
pub(super) struct Take<'a>(pub(super) &'a [u8]);

impl<'a> Take<'a> {
    /// `None` if the body is damaged, `Some(None)` if the kind is not known.
    pub(super) fn frame(&mut self, kind: u8) -> Option<Option<Frame<'a>>> {
        Some(Some(match kind {
            kind::HELLO => {
                let versions = (self.small()?, self.small()?);
                Frame::Hello(Hello { versions, place: self.place()?, proof: self.bytes()?.to_vec() })
            }
            kind::WELCOME => {
                let (version, path) = (self.small()?, self.path()?);
                Frame::Welcome(Welcome { version, path, proof: self.bytes()?.to_vec() })
            }
            kind::PATH => Frame::Path(self.path()?),
            kind::NODE => Frame::Node(self.node()?),
            kind::METRIC => Frame::Metric { number: self.small()?, metric: self.metric()? },
            kind::OPEN => Frame::Open { number: self.small()?, row: Arc::new(self.opened()?) },
            kind::ROW => {
                let (number, seq, at_ns) = (self.small()?, self.number()?, self.number()?);
                let (is_final, n_running) = (self.byte()? & 1 == 1, self.small()?);
                Frame::Row(RowFrame { number, seq, at_ns, is_final, n_running, changes: Changes(self.0) })
            }
            kind::ACK => Frame::Ack { number: self.small()?, seq: self.number()? },
            kind::BEHIND => Frame::Behind { number: self.small()?, seq: self.number()? },
            kind::CLOSE => Frame::Close { number: self.small()? },
            kind::PING => Frame::Ping { at_ns: self.number()? },
            kind::PONG => Frame::Pong { at_ns: self.number()?, now_ns: self.number()? },
            kind::BYE => Frame::Bye(self.name()?),
            kind::ASK => Frame::Ask(self.ask()?),
            kind::ANSWER => Frame::Answer(AnswerPart {
                id: self.number()?,
                number: self.small()?,
                kind: PartKind::of_code(self.byte()?),
                bytes: self.bytes()?,
            }),
            kind::MISSED => {
                let (number, seq) = (self.small()?, self.number()?);
                let after = seq.checked_sub(self.number()?)?;
                let at_ns = self.number()?;
                Frame::Missed(MissedFrame { number, seq, after, at_ns, values: Changes(self.0) })
            }
            kind::OUTLOOK => Frame::Outlook { number: self.small()?, outlook: self.outlook()? },
            _ => return Some(None),
        }))
    }

    pub(super) fn outlook(&mut self) -> Option<Outlook> {
        Some(Outlook {
            at_ns: self.number()?,
            moved_bytes: self.number()?,
            period_ns: self.number()?,
            confidence_ppm: self.small()?,
            idle_ppm: self.small()?,
            next_ns: self.number()?,
            early_ns: self.number()?,
            late_ns: self.number()?,
            phase_ns: self.number()?,
            phase_bytes: self.number()?,
        })
    }

    pub(super) fn ask(&mut self) -> Option<Ask> {
        let (id, node, n_passed) = (self.number()?, self.name()?, self.byte()?);
        let wanted = match self.byte()? {
            wanted::NAMES => Wanted::Names,
            wanted::ALL => Wanted::All,
            wanted::METRIC => Wanted::Metric(self.name()?),
            // A question of the future is answered, too: that it is not known.
            _ => return Some(Ask { id, node, n_passed, question: None }),
        };
        let (from_s, to_s, points) = (self.number()?, self.number()?, self.small()?);
        Some(Ask { id, node, n_passed, question: Some(Question { wanted, from_s, to_s, points }) })
    }

    pub(super) fn byte(&mut self) -> Option<u8> {
        let (&byte, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(byte)
    }

    pub(super) fn number(&mut self) -> Option<u64> {
        take_varint(&mut self.0)
    }

    pub(super) fn signed(&mut self) -> Option<i64> {
        self.number().map(unzigzag)
    }

    pub(super) fn small(&mut self) -> Option<u32> {
        self.number()?.try_into().ok()
    }

    pub(super) fn bytes(&mut self) -> Option<&'a [u8]> {
        let length = usize::try_from(self.number()?).ok().filter(|&length| length <= MOST_TEXT)?;
        let (bytes, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(bytes)
    }

    pub(super) fn text(&mut self) -> Option<String> {
        self.bytes().map(|bytes| String::from_utf8_lossy(bytes).into_owned())
    }

    pub(super) fn name(&mut self) -> Option<Name> {
        self.bytes().map(Name::cut)
    }

    pub(super) fn place(&mut self) -> Option<Place> {
        Some(Place { node: self.name()?, instance: self.number()? })
    }

    pub(super) fn path(&mut self) -> Option<Vec<Place>> {
        let n = self.number()?;
        // One more than there may be is told apart from damage.
        if n > 2 * MOST_LEVELS as u64 {
            return None;
        }
        (0..n).map(|_| self.place()).collect()
    }

    pub(super) fn node(&mut self) -> Option<NodeNews> {
        Some(NodeNews {
            node: self.name()?,
            parent: self.name()?,
            version: self.name()?,
            skew_ns: self.signed()?,
            round_trip_ns: self.number()?,
            jobs: self.number()?,
            processes: self.number()?,
            bytes_read: self.number()?,
            bytes_written: self.number()?,
            losses: self.number()?,
            silent_ns: self.number()?,
        })
    }

    pub(super) fn metric(&mut self) -> Option<Metric> {
        Some(match self.byte()? {
            0 => Metric::Io { op: self.name()?.into(), layer: self.name()?.into(), fs: self.name()? },
            1 => Metric::Mpi { function: self.name()?.into() },
            2 => Metric::Own { name: self.name()?, unit: self.name()? },
            3 => Metric::Threads,
            4 => Metric::OtherThreads,
            5 => Metric::Lost,
            kind @ (6 | 7) => Metric::Killed { is_rank: kind == 7 },
            8 => Metric::System(self.name()?.into()),
            _ => return None,
        })
    }

    pub(super) fn opened(&mut self) -> Option<Opened> {
        let (node, epoch) = (self.name()?, self.number()?);
        let (cluster, uid) = (self.name()?, self.small()?);
        let key = JobKey { cluster, uid, id: JobId::new(self.bytes()?).ok()?, start_ns: self.number()? };
        let (user, app, name) = (self.name()?, self.name()?, self.name()?);
        let (partition, build) = (self.name()?, self.name()?);
        let (account, alias) = (self.name()?, self.name()?);
        let (command, run_dir) = (self.text()?, self.text()?);
        let parameters = Parameters::read(self.bytes()?);
        let size = self.small()?;
        let trust = if self.byte()? & 1 == 1 { Trust::Cgroup } else { Trust::Claimed };
        let about = About {
            user,
            app,
            name,
            command,
            run_dir,
            partition,
            account,
            alias,
            size,
            trust,
            build,
            parameters,
        };
        let is_local = self.byte()? & 1 == 1;
        Some(Opened { node, epoch, key, about, is_local, rank: self.small()?, n_ranks: self.small()? })
    }
}
