//! The colours of pictures, by day and by night, and what wears them.

use std::fmt::Write;

/// Colours that stay apart in grey: ink, then series, then shades.
#[derive(Debug)]
pub struct Palette {
    paper: &'static str,
    ink: &'static str,
    quiet: &'static str,
    grid: &'static str,
    series: &'static str,
    faint: &'static str,
    /// Shades of the phases, one for each rhythm.
    phases: [&'static str; N_COLOURS],
    /// Dots and lines of a rhythm.
    rhythms: [&'static str; N_COLOURS],
    mark: &'static str,
    metadata: &'static str,
    read: &'static str,
    /// From little to much.
    reads: [&'static str; LEVELS],
    writes: [&'static str; LEVELS],
}

/// How many shades a heat map has.
pub const LEVELS: usize = 8;

/// How many rhythms have a colour of their own.
pub const N_COLOURS: usize = 4;

/// By day.
pub const LIGHT: Palette = Palette {
    paper: "#fcfcfb",
    ink: "#1d2a33",
    quiet: "#5b6972",
    grid: "#e3e7ea",
    series: "#1f5c85",
    faint: "#93b9d2",
    phases: ["#f3e3bd", "#cfe6d4", "#e6d3ea", "#f5cfc4"],
    rhythms: ["#8a6414", "#2c7a45", "#7b3f92", "#b2452b"],
    mark: "#b2452b",
    metadata: "#98a3ab",
    read: "#b17d19",
    reads: ["#f6ead0", "#eed7a4", "#e3c075", "#d5a749", "#bf8c2b", "#a0701d", "#7e5516", "#593b10"],
    writes: ["#dbe8f1", "#bdd5e5", "#9cc0d8", "#78a9ca", "#568fb7", "#38759f", "#1f5c85", "#0e3f61"],
};

/// By night.
pub const DARK: Palette = Palette {
    paper: "#12181d",
    ink: "#dbe3e8",
    quiet: "#94a3ad",
    grid: "#2a343b",
    series: "#7fb8dc",
    faint: "#33566d",
    phases: ["#453d28", "#23402d", "#402b49", "#4f2c22"],
    rhythms: ["#dcb55f", "#74c48c", "#c795da", "#ec8a6c"],
    mark: "#ec8a6c",
    metadata: "#66747e",
    read: "#d0aa52",
    reads: ["#2b2418", "#43371f", "#5e4b25", "#7c622b", "#9c7b34", "#bd9743", "#dcb55f", "#f7da9a"],
    writes: ["#182a37", "#1d3a4f", "#254d69", "#306485", "#427ea4", "#5b9ac2", "#7fb8dc", "#b9def5"],
};

/// Returns the style of a picture that stands alone.
pub fn style_element() -> String {
    format!("<style>{}@media (prefers-color-scheme: dark){{{}}}</style>", style(&LIGHT), style(&DARK))
}

/// Colours are written out rather than as variables: programs that set papers do not know those.
pub fn style(palette: &Palette) -> String {
    let Palette {
        paper,
        ink,
        quiet,
        grid,
        series,
        faint,
        phases,
        rhythms,
        mark,
        metadata,
        read,
        reads,
        writes,
    } = palette;
    let mut style = format!(
        ".plot text{{fill:{quiet}}}.plot .name,.plot .legend text{{fill:{ink}}}\
         .plot .grid{{stroke:{grid};stroke-width:1}}.plot .tick,.plot .base{{stroke:{quiet};stroke-width:1}}\
         .plot .phase{{fill:{}}}.plot .pause{{fill:{grid}}}.plot .expected{{stroke:{mark};stroke-width:1;stroke-dasharray:4 3}}\
         .plot.swatch .phase,.plot.swatch .pause{{stroke:{quiet};stroke-width:1}}\
         .plot .hatch{{stroke:{mark};stroke-width:1.4;stroke-opacity:.55}}\
         .plot .faint,.plot .ribbon{{fill:{faint}}}.plot .area{{fill:{series};fill-opacity:.85}}\
         .plot .edge{{fill:none;stroke:{series};stroke-width:1;stroke-linejoin:round}}\
         .plot .a1{{fill:{read};fill-opacity:.8}}.plot .f0{{fill-opacity:.7}}.plot .f1{{fill:{read};fill-opacity:.45}}.plot .e1{{stroke:{read}}}\
         .plot .line{{fill:none;stroke:{series};stroke-width:1.4;stroke-linejoin:round}}\
         .plot .legend .line,.plot.swatch .line{{fill:{series};stroke:none}}\
         .plot line.mark{{stroke:{mark};stroke-width:1.3;stroke-dasharray:5 4}}\
         .plot line.weak{{stroke:{quiet};stroke-dasharray:2 4}}\
         .plot text.mark{{fill:{mark};font-weight:600;stroke:{paper};stroke-width:3;paint-order:stroke}}.plot text.weak{{fill:{quiet};font-weight:400}}\
         .plot .dot{{fill:{mark}}}.plot .hair{{stroke:{quiet};stroke-width:1}}\
         .plot .read{{fill:{read}}}.plot .write{{fill:{series}}}.plot .metadata{{fill:{metadata}}}\
         .plot .averaged{{fill-opacity:.45}}.plot .field{{fill:{grid};fill-opacity:.35}}\
         .plot .sample{{fill:none;stroke:{faint};stroke-width:.8;stroke-opacity:.55;stroke-linejoin:round}}\
         .plot .signature{{fill:none;stroke:{series};stroke-width:2.4;stroke-linejoin:round}}\
         .plot .here{{fill:none;stroke:{mark};stroke-width:1.5}}",
        phases[0]
    );
    for (i, (phase, rhythm)) in phases.iter().zip(rhythms).enumerate() {
        let _ = write!(
            style,
            ".plot .p{i}{{fill:{phase}}}.plot path.c{i}{{fill:none;stroke:{rhythm}}}.plot rect.c{i}{{fill:{rhythm}}}"
        );
    }
    style.push_str(
        ".plot path.points{stroke-width:5.5;stroke-linecap:round}.plot path.beat{stroke-width:1.2;stroke-opacity:.7}.plot path.wave{stroke-width:2;stroke-opacity:1;stroke-linejoin:round}",
    );
    for (name, shades) in [("r", reads), ("w", writes)] {
        for (i, shade) in shades.iter().enumerate() {
            let _ = write!(
                style,
                ".plot path.{name}{i}{{stroke:{shade};fill:none}}.plot rect.{name}{i}{{fill:{shade}}}"
            );
        }
    }
    style
}
