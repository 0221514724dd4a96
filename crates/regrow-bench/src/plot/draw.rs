//! Draws charts, each as SVG and as PNG.

use std::fs::{self, File};
use std::io::BufWriter;
use std::path::Path;

use plotters::coord::Shift;
use plotters::prelude::*;
use rustix::fs::{Access, access};

use super::chart::{Chart, ChartSheet, Legend, Scale};
use super::charts::charts;
use super::error::PlotError;
use super::letters::Lettered;
use super::scaling;
use crate::figure::Figure;
use crate::replay::result::ReplayResult;

const WIDTH: u32 = 960;
const HEIGHT: u32 = 600;
const COLORS: [RGBColor; 6] = [
    RGBColor(0x77, 0x77, 0x77),
    RGBColor(0x33, 0x66, 0xcc),
    RGBColor(0x11, 0x88, 0x77),
    RGBColor(0xdd, 0x88, 0x22),
    RGBColor(0xcc, 0x22, 0x44),
    RGBColor(0x77, 0x33, 0x99),
];

/// Makes the folder of the plots if it is missing, and checks that it can be written to.
///
/// # Errors
/// [`PlotError::Write`].
pub fn make_folder(folder: &Path) -> Result<(), PlotError> {
    let cannot = |source| PlotError::Write { path: folder.to_owned(), source };
    fs::create_dir_all(folder).map_err(cannot)?;
    access(folder, Access::WRITE_OK | Access::EXEC_OK).map_err(|error| cannot(error.into()))
}

/// Draws all charts of a replay into a folder that is there.
///
/// # Errors
/// [`PlotError`] when a file cannot be written or encoded.
pub fn draw(folder: &Path, replay: &ReplayResult) -> Result<(), PlotError> {
    let alone = |chart: Chart| ChartSheet { name: chart.name.clone(), columns: 1, charts: vec![chart] };
    charts(replay).into_iter().map(alone).try_for_each(|sheet| draw_sheet(folder, &sheet))
}

/// Draws figures 6 and 7 out of the figures of the memory service, into a folder that is there. How many sheets.
///
/// # Errors
/// As [`draw`].
pub fn draw_scaling(folder: &Path, figures: &[Figure]) -> Result<usize, PlotError> {
    let sheets = scaling::sheets(figures);
    sheets.iter().try_for_each(|sheet| draw_sheet(folder, sheet))?;
    Ok(sheets.len())
}

fn draw_sheet(folder: &Path, sheet: &ChartSheet) -> Result<(), PlotError> {
    draw_svg(&folder.join(format!("{}.svg", sheet.name)), sheet)?;
    draw_png(&folder.join(format!("{}.png", sheet.name)), sheet)
}

/// The size of a file: a chart alone is larger than one of several.
fn size(sheet: &ChartSheet) -> (u32, u32) {
    if sheet.columns <= 1 {
        return (WIDTH, HEIGHT);
    }
    let columns = u32::try_from(sheet.columns).unwrap_or(1);
    let rows = u32::try_from(sheet.charts.len().div_ceil(sheet.columns)).unwrap_or(1);
    (columns * WIDTH / 2, rows * HEIGHT * 2 / 3)
}

fn draw_svg(path: &Path, sheet: &ChartSheet) -> Result<(), PlotError> {
    let mut text = String::new();
    draw_on(&SVGBackend::with_string(&mut text, size(sheet)).into_drawing_area(), sheet)?;
    if !text.ends_with('\n') {
        text.push('\n');
    }
    fs::write(path, text).map_err(|source| PlotError::Write { path: path.to_owned(), source })
}

fn draw_png(path: &Path, sheet: &ChartSheet) -> Result<(), PlotError> {
    let (width, height) = size(sheet);
    let mut pixels = vec![0; width as usize * height as usize * 3];
    let bitmap = BitMapBackend::with_buffer(&mut pixels, (width, height));
    draw_on(&Lettered(bitmap).into_drawing_area(), sheet)?;
    let write = |source| PlotError::Write { path: path.to_owned(), source };
    let encode = |source| PlotError::Encode { path: path.to_owned(), source };
    let mut encoder = png::Encoder::new(BufWriter::new(File::create(path).map_err(write)?), width, height);
    encoder.set_color(png::ColorType::Rgb);
    encoder.set_depth(png::BitDepth::Eight);
    let mut writer = encoder.write_header().map_err(encode)?;
    writer.write_image_data(&pixels).map_err(encode)?;
    writer.finish().map_err(encode)
}

/// Where numbers of a chart lie, and how they are written.
struct Axis {
    from: f64,
    to: f64,
    labels: usize,
    /// Of which number powers are taken.
    power: Option<f64>,
}

impl Axis {
    fn of(scale: Scale, power: f64, values: impl Iterator<Item = f64>, labels: usize) -> Axis {
        match scale {
            Scale::Linear => {
                let most = values.fold(0.0, f64::max);
                Axis { from: 0.0, to: if most > 0.0 { most * 1.06 } else { 1.0 }, labels, power: None }
            }
            Scale::Powers => {
                let powers = values.map(|value| value.log(power));
                let (least, most) =
                    powers.fold((f64::MAX, f64::MIN), |(least, most), at| (least.min(at), most.max(at)));
                // A number that is a power itself may lie a bit beside it.
                let (from, to) = ((least + 0.01).floor(), (most - 0.01).ceil());
                Axis { from, to: to.max(from + 1.0), labels: labels.max(8), power: Some(power) }
            }
        }
    }

    fn at(&self, value: f64) -> f64 {
        self.power.map_or(value, |power| value.log(power))
    }

    fn text(&self, at: f64) -> String {
        let Some(power) = self.power else {
            let digits = if self.to < 10.0 { 2 } else { 0 };
            return format!("{at:.digits$}");
        };
        if (at - at.round()).abs() > 0.01 {
            return String::new();
        }
        let value = power.powf(at.round());
        match value {
            1e6.. => format!("{:.0} M", value / 1e6),
            1e4.. => format!("{:.0} k", value / 1e3),
            1.0.. => format!("{value:.0}"),
            _ => format!("{value}"),
        }
    }
}

fn draw_on<B: DrawingBackend>(area: &DrawingArea<B, Shift>, sheet: &ChartSheet) -> Result<(), PlotError> {
    draw_charts(area, sheet)
        .map_err(|error| PlotError::Draw { name: sheet.name.clone(), reason: error.to_string() })
}

fn draw_charts<B: DrawingBackend>(
    area: &DrawingArea<B, Shift>,
    sheet: &ChartSheet,
) -> Result<(), DrawingAreaErrorKind<B::ErrorType>> {
    let columns = sheet.columns.max(1);
    let parts = area.split_evenly((sheet.charts.len().div_ceil(columns), columns));
    sheet.charts.iter().zip(&parts).try_for_each(|(chart, part)| draw_chart(part, chart))?;
    area.present()
}

fn draw_chart<B: DrawingBackend>(
    area: &DrawingArea<B, Shift>,
    chart: &Chart,
) -> Result<(), DrawingAreaErrorKind<B::ErrorType>> {
    let all = || chart.series.iter().map(|(_, points)| points).chain(&chart.marks).flatten();
    let x = Axis::of(chart.scale, 2.0, all().map(|point| point.0), 10);
    let y = Axis::of(chart.scale, 10.0, all().map(|point| point.1), 8);
    let at = |&(right, up): &(f64, f64)| (x.at(right), y.at(up));
    area.fill(&WHITE)?;
    let mut axes = ChartBuilder::on(area)
        .caption(&chart.title, ("sans-serif", 20))
        .margin(16)
        .x_label_area_size(50)
        .y_label_area_size(80)
        .build_cartesian_2d(x.from..x.to, y.from..y.to)?;
    axes.configure_mesh()
        .light_line_style(TRANSPARENT)
        .x_desc(chart.x)
        .y_desc(chart.y)
        .x_labels(x.labels)
        .y_labels(y.labels)
        .x_label_formatter(&|at| x.text(*at))
        .y_label_formatter(&|at| y.text(*at))
        .label_style(("sans-serif", 14))
        .axis_desc_style(("sans-serif", 16))
        .draw()?;
    let dot = if chart.marks.is_empty() { 4 } else { 2 };
    for (index, (name, points)) in chart.series.iter().enumerate() {
        let color = COLORS[index % COLORS.len()];
        if chart.lines {
            axes.draw_series(LineSeries::new(points.iter().map(at), color.stroke_width(2)))?;
        }
        let dots = points.iter().map(at).map(|point| Circle::new(point, dot, color.filled()));
        axes.draw_series(dots)?
            .label(name)
            .legend(move |(x, y)| Rectangle::new([(x, y - 5), (x + 14, y + 5)], color.filled()));
    }
    for (index, points) in chart.marks.iter().enumerate() {
        let color = COLORS[index % COLORS.len()];
        let rings = points.iter().map(at).map(|point| Circle::new(point, 7, color.stroke_width(3)));
        axes.draw_series(rings)?;
    }
    let position = match chart.legend {
        Legend::Nowhere => return Ok(()),
        Legend::Left => SeriesLabelPosition::UpperLeft,
        Legend::Right => SeriesLabelPosition::UpperRight,
    };
    axes.configure_series_labels()
        .background_style(WHITE.mix(0.85))
        .border_style(BLACK.mix(0.4))
        .label_font(("sans-serif", 14))
        .position(position)
        .draw()
}

const TRANSPARENT: RGBAColor = RGBAColor(255, 255, 255, 0.0);

#[cfg(test)]
mod tests {
    use super::*;

    fn sheet() -> ChartSheet {
        let points = vec![(100.0, 1.0), (200.0, 3.0)];
        let chart = Chart {
            name: "t-time".to_owned(),
            title: "t: time spent".to_owned(),
            x: "creations",
            y: "ms",
            series: vec![("none".to_owned(), points), ("adaptive".to_owned(), vec![(100.0, 0.5)])],
            lines: true,
            marks: Vec::new(),
            scale: Scale::Linear,
            legend: Legend::Right,
        };
        ChartSheet { name: "t-time".to_owned(), columns: 1, charts: vec![chart] }
    }

    #[test]
    fn a_plot_is_an_svg_and_a_png_of_the_same_size() {
        let folder = tempfile::tempdir().unwrap();
        let (svg, png) = (folder.path().join("a.svg"), folder.path().join("a.png"));
        draw_svg(&svg, &sheet()).unwrap();
        draw_png(&png, &sheet()).unwrap();
        let text = fs::read_to_string(&svg).unwrap();
        assert!(text.starts_with("<svg width=\"960\" height=\"600\"") && text.ends_with("</svg>\n"));
        for word in ["t: time spent", "creations", "adaptive", "none"] {
            assert!(text.contains(word), "{word}");
        }
        let decoder = png::Decoder::new(std::io::BufReader::new(File::open(&png).unwrap()));
        let mut reader = decoder.read_info().unwrap();
        let mut pixels = vec![0; reader.output_buffer_size().unwrap()];
        let info = reader.next_frame(&mut pixels).unwrap();
        assert_eq!((info.width, info.height), (WIDTH, HEIGHT));
        let has =
            |color: RGBColor| pixels.chunks(3).filter(|pixel| **pixel == [color.0, color.1, color.2]).count();
        assert!(has(COLORS[0]) > 200 && has(COLORS[1]) > 40, "{} {}", has(COLORS[0]), has(COLORS[1]));
        assert!(has(BLACK) > 500, "letters: {}", has(BLACK));
    }

    #[test]
    fn what_cannot_be_written_is_told_with_its_path() {
        let error = draw_svg(Path::new("/nonexistent/a.svg"), &sheet()).unwrap_err();
        assert_eq!(error.to_string(), "/nonexistent/a.svg: cannot be written");
    }
}
