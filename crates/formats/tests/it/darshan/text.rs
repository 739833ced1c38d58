use iotide_formats::darshan::{DarshanLayers, DarshanOptions, DarshanSource, Log, ModuleData, lustre_totals};
use iotide_formats::{Format, OpenOptions};
use iotide_trace::{Layer, Op, Trace};

const HEAD: &str = "# darshan log version: 3.41
# compression method: ZLIB
# exe: ./ior -a POSIX: fast
# uid: 1000
# jobid: 4711
# start_time: 1600000000
# start_time_asci: Sun Sep 13 14:26:40 2020
# end_time: 1600000009
# end_time_asci: Sun Sep 13 14:26:49 2020
# nprocs: 2
# run time: 9.2500
# metadata: lib_ver = 3.4.4
# metadata: h = romio_no_indep_rw=true;cb_nodes=4

# log file regions
# -------------------------------------------------------
# header: 1328 bytes (uncompressed)
# job data: 300 bytes (compressed)
# record table: 100 bytes (compressed)
# POSIX module: 200 bytes (compressed), ver=4
# LUSTRE module: 40 bytes (compressed), ver=1
# DXT_POSIX module: 90 bytes (compressed), ver=1

# mounted file systems (mount point and fs type)
# -------------------------------------------------------
# mount entry:\t/scratch\tlustre
# mount entry:\t/\text4
";

pub const PARSER: &str = "
# *******************************************************
# POSIX module data
# *******************************************************

# *WARNING*: The POSIX module contains incomplete data!

#<module>\t<rank>\t<record id>\t<counter>\t<value>\t<file name>\t<mount pt>\t<fs type>
POSIX\t-1\t18446744073709551615\tPOSIX_OPENS\t4\t/scratch/a b\t/scratch\tlustre
POSIX\t-1\t18446744073709551615\tPOSIX_WRITES\t8\t/scratch/a b\t/scratch\tlustre
POSIX\t-1\t18446744073709551615\tPOSIX_BYTES_WRITTEN\t4096\t/scratch/a b\t/scratch\tlustre
POSIX\t-1\t18446744073709551615\tPOSIX_F_WRITE_START_TIMESTAMP\t1.500000\t/scratch/a b\t/scratch\tlustre
POSIX\t-1\t18446744073709551615\tPOSIX_F_WRITE_END_TIMESTAMP\t2.500000\t/scratch/a b\t/scratch\tlustre
POSIX\t1\t7\tPOSIX_OPENS\t1\t/b\t/\text4
POSIX\t1\t7\tPOSIX_WRITES\t1\t/b\t/\text4
POSIX\t1\t7\tPOSIX_BYTES_WRITTEN\t10\t/b\t/\text4
POSIX\t1\t7\tPOSIX_F_WRITE_START_TIMESTAMP\t3.000000\t/b\t/\text4
POSIX\t1\t7\tPOSIX_F_WRITE_END_TIMESTAMP\t4.000000\t/b\t/\text4

# *******************************************************
# LUSTRE module data
# *******************************************************

#<module>\t<rank>\t<record id>\t<counter>\t<value>\t<file name>\t<mount pt>\t<fs type>
LUSTRE\t-1\t7\tLUSTRE_STRIPE_SIZE\t1048576\t/b\t/\text4
LUSTRE\t-1\t7\tLUSTRE_STRIPE_WIDTH\t2\t/b\t/\text4
LUSTRE\t-1\t7\tLUSTRE_OST_ID_0\t3\t/b\t/\text4
LUSTRE\t-1\t7\tLUSTRE_OST_ID_1\t4\t/b\t/\text4
HEATMAP\t0\t16592106915301738621\tHEATMAP_F_BIN_WIDTH_SECONDS\t0.100000\theatmap:POSIX\tUNKNOWN\tUNKNOWN
HEATMAP\t0\t16592106915301738621\tHEATMAP_READ_BIN_0\t0\theatmap:POSIX\tUNKNOWN\tUNKNOWN
HEATMAP\t0\t16592106915301738621\tHEATMAP_READ_BIN_1\t5\theatmap:POSIX\tUNKNOWN\tUNKNOWN
HEATMAP\t0\t16592106915301738621\tHEATMAP_WRITE_BIN_0\t6\theatmap:POSIX\tUNKNOWN\tUNKNOWN
HEATMAP\t0\t16592106915301738621\tHEATMAP_WRITE_BIN_1\t7\theatmap:POSIX\tUNKNOWN\tUNKNOWN
";

const DXT: &str = "
# ***************************************************
# DXT_POSIX module data
# ***************************************************

# DXT, file_id: 7, file_name: /b, with a comma
# DXT, rank: 1, hostname: nid00012
# DXT, write_count: 2, read_count: 1
# DXT, mnt_pt: /, fs_type: lustre
# Module    Rank  Wt/Rd  Segment          Offset          Length    Start(s)      End(s)   [OST]   Pthread-ID
 X_POSIX       1  write        0               0            4096      0.0100      0.0200   [3] [4]     N/A
 X_POSIX       1  write        1            4096            4096      0.0300      0.0400   [3]     12
 X_POSIX       1   read        0               0             100      1.0000      1.5000
";

fn head_and(body: &str) -> Vec<u8> {
    format!("{HEAD}{body}").into_bytes()
}

/// Both texts, for the tests of all formats.
pub fn samples() -> [(Format, Vec<u8>); 2] {
    let whole = PARSER.replace("# *WARNING*: The POSIX module contains incomplete data!\n", "");
    [(Format::DarshanParserText, head_and(&whole)), (Format::DarshanDxtText, head_and(DXT))]
}

#[test]
fn what_darshan_parser_prints_is_read() {
    let log = Log::parse("text", head_and(PARSER)).unwrap();
    let job = log.job.as_ref().unwrap();
    assert_eq!((job.exe.as_str(), job.job_id, job.n_procs), ("./ior -a POSIX: fast", 4711, 2));
    assert_eq!(job.run_time_s(), Some(9.25));
    assert_eq!(log.library_version(), Some("3.4.4"));
    assert_eq!((job.mounts[0].path.as_str(), job.mounts[0].kind.as_str()), ("/scratch", "lustre"));
    let posix = log.module("POSIX").unwrap();
    assert_eq!((posix.version, posix.partial, posix.n_records()), (4, true, Some(2)));
    let totals = posix.counters().unwrap().totals();
    assert_eq!(
        totals.iter().map(|(_, total)| total.as_f64()).collect::<Vec<_>>(),
        [5.0, 9.0, 4106.0, 4.5, 6.5]
    );
    assert_eq!(log.names.get(u64::MAX), Some("/scratch/a b"));
    let ModuleData::Lustre(records) = &log.module("LUSTRE").unwrap().data else { panic!() };
    let totals = lustre_totals(records);
    assert_eq!((totals.components, totals.stripes, totals.unique_osts), (1, 2, 2));
    let heatmap = &log.heatmap_totals()[0];
    assert_eq!(
        (heatmap.bin_width_s, heatmap.n_bins, heatmap.bytes_read, heatmap.bytes_written),
        (0.1, 2, 5, 13)
    );
    assert_eq!(log.losses.len(), 1, "the module is partial: {:?}", log.losses);
}

#[test]
fn what_darshan_dxt_parser_prints_is_read() {
    let reader = OpenOptions::default().from_read("text", std::io::Cursor::new(head_and(DXT))).unwrap();
    assert_eq!(reader.format(), Format::DarshanDxtText);
    let mut trace = Trace::default();
    trace.info = reader.read(&mut trace).unwrap();
    let events: Vec<_> = trace.events.iter().map(|event| (event.op, event.rank.0, event.bytes)).collect();
    assert_eq!(events, [(Op::Write, 1, 4096.0), (Op::Write, 1, 4096.0), (Op::Read, 1, 100.0)]);
    assert_eq!(trace.info.files, ["/b, with a comma"]);
    let log = Log::parse("text", head_and(DXT)).unwrap();
    let ModuleData::Dxt(dxt) = &log.module("DXT_POSIX").unwrap().data else { panic!() };
    assert_eq!(
        (dxt.totals.write_segments, dxt.totals.bytes_written, dxt.totals.last_end_s),
        (2, 8192, Some(1.5))
    );
    assert_eq!(log.losses, []);
}

#[test]
fn events_of_a_text_are_those_of_the_log() {
    let options = DarshanOptions { source: DarshanSource::Counters, layers: DarshanLayers::Lowest };
    let options = OpenOptions { darshan: options, ..OpenOptions::default() };
    let reader = options.from_read("text", std::io::Cursor::new(head_and(PARSER))).unwrap();
    assert_eq!(reader.format(), Format::DarshanParserText);
    let mut trace = Trace::default();
    trace.info = reader.read(&mut trace).unwrap();
    let writes: Vec<_> = trace.events.iter().filter(|event| event.op == Op::Write).collect();
    assert_eq!(writes.len(), 2);
    assert_eq!((writes[0].start.as_secs(), writes[0].end.as_secs(), writes[0].calls), (1.5, 2.5, 8));
    assert_eq!(writes[1].layer, Layer::Posix);
}

#[test]
fn layouts_of_several_components_are_told_apart() {
    let line =
        |counter: &str, value: &str| format!("LUSTRE\t-1\t7\tLUSTRE_{counter}\t{value}\t/b\t/\tlustre\n");
    let counters = [
        ("NUM_COMPONENTS", "2"),
        ("NUM_STRIPES", "3"),
        ("COMP1_STRIPE_SIZE", "1048576"),
        ("COMP1_STRIPE_PATTERN", "raid0"),
        ("COMP1_POOL_NAME", "N/A"),
        ("COMP1_OST_ID_0", "4"),
        ("COMP2_STRIPE_SIZE", "4194304"),
        ("COMP2_POOL_NAME", "flash"),
        ("COMP2_OST_ID_0", "5"),
        ("COMP2_OST_ID_1", "4"),
    ];
    let body: String = counters.iter().map(|(counter, value)| line(counter, value)).collect();
    let log = Log::parse("text", head_and(&body)).unwrap();
    let ModuleData::Lustre(records) = &log.module("LUSTRE").unwrap().data else { panic!() };
    let std::ops::ControlFlow::Break(first) =
        records.for_each(|record| std::ops::ControlFlow::Break(record.clone()))
    else {
        panic!()
    };
    let totals = lustre_totals(records);
    assert_eq!((totals.components, totals.stripes, totals.unique_osts), (2, 3, 2));
    let pools: Vec<_> = first.components.iter().map(|component| component.pool.as_deref()).collect();
    assert_eq!(pools, [None, Some("flash")]);
}

#[test]
fn a_text_cut_within_a_record_loses_that_record() {
    let whole = head_and(PARSER);
    let cut = String::from_utf8_lossy(&whole).find("POSIX\t1\t7\tPOSIX_F_WRITE_START").unwrap();
    let log = Log::parse("text", whole[..cut].to_vec()).unwrap();
    assert_eq!(log.module("POSIX").unwrap().n_records(), Some(1));
    assert_eq!(log.losses.len(), 2, "{:?}", log.losses);

    let whole = head_and(DXT);
    let cut = String::from_utf8_lossy(&whole).find(" X_POSIX       1   read").unwrap();
    let log = Log::parse("text", whole[..cut].to_vec()).unwrap();
    assert_eq!(log.losses[0].records, Some(1));
}
