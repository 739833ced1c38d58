use std::io::Write;

use iotide_formats::darshan::{Compression, Endian};

/// Writes Darshan 3 logs as the format says, byte by byte.
#[derive(Clone)]
pub struct LogWriter {
    /// The digits after the point of the version: 0, 10, 20, 21 or 41.
    pub minor: u32,
    pub endian: Endian,
    pub compression: Compression,
    pub start_s: i64,
    pub end_s: i64,
    pub job_id: i64,
    pub n_procs: i64,
    pub names: Vec<(u64, &'static str)>,
    /// Slot, version, whether it is partial, and its streams, not yet packed.
    pub modules: Vec<(usize, u32, bool, Vec<Vec<u8>>)>,
}

pub const START_S: i64 = 1_600_000_000;
pub const EXE: &str = "./a.out -x";

impl LogWriter {
    pub fn new(minor: u32, endian: Endian, compression: Compression) -> Self {
        Self {
            minor,
            endian,
            compression,
            start_s: START_S,
            end_s: START_S + 9,
            job_id: 77,
            n_procs: 4,
            names: Vec::new(),
            modules: Vec::new(),
        }
    }

    /// A log with something of everything: two POSIX records, one STDIO record, a DXT record and a heatmap.
    pub fn rich(minor: u32, endian: Endian, compression: Compression) -> Self {
        let mut log = Self::new(minor, endian, compression);
        log.names =
            vec![(11, "/scratch/a"), (12, ""), (12, "/scratch/b"), (13, "<STDOUT>"), (14, "heatmap:POSIX")];
        let posix = |id: u64, rank: i64, bytes: i64| {
            let mut record = log.words(&[id as i64, rank]);
            let mut ints = [0_i64; 69];
            // OPENS, READS, WRITES, SEEKS; BYTES_READ, BYTES_WRITTEN.
            (ints[0], ints[3], ints[4], ints[5], ints[14], ints[15]) = (1, 2, 3, 4, bytes, 2 * bytes);
            let mut floats = [0.0; 17];
            // Opens 0.5 to 0.75, reads 1 to 2, writes 3 to 5, closes 6 to 6.5.
            (floats[0], floats[1], floats[2], floats[3]) = (0.5, 1.0, 3.0, 6.0);
            (floats[4], floats[5], floats[6], floats[7]) = (0.75, 2.0, 5.0, 6.5);
            // Time in reads, writes and metadata.
            (floats[8], floats[9], floats[10]) = (0.5, 1.25, 0.125);
            record.extend(log.words(&ints));
            record.extend(log.floats(&floats));
            record
        };
        let stdio = {
            let mut record = log.words(&[13, 0]);
            let mut ints = [0_i64; 14];
            // OPENS, WRITES, FLUSHES, BYTES_WRITTEN.
            (ints[0], ints[3], ints[5], ints[6]) = (1, 5, 1, 50);
            let mut floats = [0.0; 15];
            // Opens 0.125, writes 0.25 to 8.
            (floats[3], floats[5], floats[9]) = (0.125, 0.25, 8.0);
            record.extend(log.words(&ints));
            record.extend(log.floats(&floats));
            record
        };
        let dxt = {
            let mut record = log.words(&[11, 0, 0]);
            let mut host = [0; 64];
            host[..3].copy_from_slice(b"n01");
            record.extend(host);
            record.extend(log.words(&[2, 1]));
            for (offset, length, start, end) in [(0, 150, 3.0, 3.5), (150, 50, 4.0, 5.0), (0, 100, 1.0, 2.0)]
            {
                record.extend(log.words(&[offset, length]));
                record.extend(log.floats(&[start, end]));
            }
            record
        };
        let heatmap = {
            let mut record = log.words(&[14, 0]);
            record.extend(log.floats(&[2.0]));
            record.extend(log.words(&[3, -1, -1]));
            record.extend(log.words(&[0, 200, 0, 100, 0, 0]));
            record
        };
        log.push("POSIX", 4, false, vec![posix(11, 0, 100), posix(12, -1, 1000)]);
        log.push("STDIO", 2, false, vec![stdio]);
        log.push("DXT_POSIX", 1, false, vec![dxt]);
        log.push("HEATMAP", 1, false, vec![heatmap]);
        log
    }

    /// Adds a module by its name in the newest version.
    pub fn push(&mut self, name: &str, version: u32, partial: bool, streams: Vec<Vec<u8>>) {
        const NAMES: [&str; 18] = [
            "NULL",
            "POSIX",
            "MPI-IO",
            "H5F",
            "H5D",
            "PNETCDF_FILE",
            "PNETCDF_VAR",
            "BG/Q",
            "LUSTRE",
            "STDIO",
            "DXT_POSIX",
            "DXT_MPIIO",
            "MDHIM",
            "APXC",
            "APMPI",
            "HEATMAP",
            "DFS",
            "DAOS",
        ];
        let mut slot = NAMES.iter().position(|known| *known == name).unwrap();
        slot -= usize::from(self.minor < 41 && slot > 6);
        slot -= usize::from(self.minor < 20 && slot > 4);
        self.modules.push((slot, version, partial, streams));
    }

    pub fn words(&self, words: &[i64]) -> Vec<u8> {
        words.iter().flat_map(|word| self.order(word.to_be_bytes())).collect()
    }

    pub fn floats(&self, floats: &[f64]) -> Vec<u8> {
        floats.iter().flat_map(|float| self.order(float.to_be_bytes())).collect()
    }

    fn order<const N: usize>(&self, mut big: [u8; N]) -> [u8; N] {
        if self.endian == Endian::Little {
            big.reverse();
        }
        big
    }

    pub fn write(&self) -> Vec<u8> {
        let n_slots = if self.minor >= 41 { 64 } else { 16 };
        let header_len = if self.minor >= 41 { 1328 } else { 360 };
        let mut body = self.pack(&self.job());
        let names_at = header_len + body.len();
        body.extend(self.pack(&self.name_records()));
        let names_len = header_len + body.len() - names_at;
        let mut maps = vec![(0, 0); n_slots];
        let mut versions = vec![0_u32; n_slots];
        let mut partial = 0_u64;
        for (slot, version, is_partial, streams) in &self.modules {
            let at = header_len + body.len();
            streams.iter().for_each(|stream| body.extend(self.pack(stream)));
            maps[*slot] = (at as i64, (header_len + body.len() - at) as i64);
            versions[*slot] = *version;
            partial |= u64::from(*is_partial) << slot;
        }

        let mut log = format!("3.{:02}\0\0\0\0", self.minor).into_bytes();
        log.extend(self.words(&[6_567_223]));
        log.push(match self.compression {
            Compression::Zlib => 0,
            Compression::Bzip2 => 1,
            Compression::None => 2,
        });
        if self.minor >= 41 {
            log.extend([0; 7]);
            log.extend(self.words(&[partial as i64]));
        } else {
            log.extend([0; 3]);
            log.extend(self.order((partial as u32).to_be_bytes()));
        }
        log.extend(self.words(&[names_at as i64, names_len as i64]));
        maps.iter().for_each(|(offset, length)| log.extend(self.words(&[*offset, *length])));
        versions.iter().for_each(|version| log.extend(self.order(version.to_be_bytes())));
        assert_eq!(log.len(), header_len);
        log.extend(body);
        log
    }

    fn job(&self) -> Vec<u8> {
        let Self { start_s, end_s, n_procs, job_id, .. } = *self;
        let mut job = if self.minor >= 41 {
            self.words(&[1000, start_s, 250_000_000, end_s, 500_000_000, n_procs, job_id])
        } else {
            self.words(&[1000, start_s, end_s, n_procs, job_id])
        };
        let mut metadata = b"lib_ver=3.9.9\nh=romio_no_indep_rw=true\n".to_vec();
        metadata.resize(1024, 0);
        job.extend(metadata);
        job.extend(EXE.as_bytes());
        job.extend(b"\next4\t/\nlustre\t/scratch");
        job
    }

    fn name_records(&self) -> Vec<u8> {
        let mut records = Vec::new();
        for (id, name) in &self.names {
            records.extend(self.words(&[*id as i64]));
            if self.minor == 0 {
                records.extend(self.order((name.len() as u32).to_be_bytes()));
                records.extend(name.as_bytes());
            } else {
                records.extend(name.as_bytes());
                records.push(0);
            }
        }
        records
    }

    fn pack(&self, bytes: &[u8]) -> Vec<u8> {
        match self.compression {
            Compression::Zlib => {
                let mut packer = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
                packer.write_all(bytes).unwrap();
                packer.finish().unwrap()
            }
            Compression::Bzip2 => {
                let mut packer = bzip2::write::BzEncoder::new(Vec::new(), bzip2::Compression::fast());
                packer.write_all(bytes).unwrap();
                packer.finish().unwrap()
            }
            Compression::None => bytes.to_vec(),
        }
    }
}
