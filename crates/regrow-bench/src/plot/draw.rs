//! Draws charts, each as SVG and as PNG.

use std::fs::{self, File};
use std::io::BufWriter;
use std::path::Path;

use plotters::coord::Shift;
use plotters::prelude::*;
use rustix::fs::{Access, access};

use super::charts::{Chart, charts};
use super::error::PlotError;
use super::letters::Lettered;
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
    charts(replay).iter().try_for_each(|chart| {
        draw_svg(&folder.join(format!("{}.svg", chart.name)), chart)?;
        draw_png(&folder.join(format!("{}.png", chart.name)), chart)
    })
}

fn draw_svg(path: &Path, chart: &Chart) -> Result<(), PlotError> {
    let mut text = String::new();
    draw_on(&SVGBackend::with_string(&mut text, (WIDTH, HEIGHT)).into_drawing_area(), chart)?;
    if !text.ends_with('\n') {
        text.push('\n');
    }
    fs::write(path, text).map_err(|source| PlotError::Write { path: path.to_owned(), source })
}

fn draw_png(path: &Path, chart: &Chart) -> Result<(), PlotError> {
    const BYTES: usize = WIDTH as usize * HEIGHT as usize * 3;
    let mut pixels = vec![0; BYTES];
    let bitmap = BitMapBackend::with_buffer(&mut pixels, (WIDTH, HEIGHT));
    draw_on(&Lettered(bitmap).into_drawing_area(), chart)?;
    let write = |source| PlotError::Write { path: path.to_owned(), source };
    let encode = |source| PlotError::Encode { path: path.to_owned(), source };
    let mut encoder = png::Encoder::new(BufWriter::new(File::create(path).map_err(write)?), WIDTH, HEIGHT);
    encoder.set_color(png::ColorType::Rgb);
    encoder.set_depth(png::BitDepth::Eight);
    let mut writer = encoder.write_header().map_err(encode)?;
    writer.write_image_data(&pixels).map_err(encode)?;
    writer.finish().map_err(encode)
}

/// The largest of some numbers and a bit more; one where there are none.
fn bound(values: impl Iterator<Item = f64>) -> f64 {
    let most = values.fold(0.0, f64::max);
    if most > 0.0 { most * 1.06 } else { 1.0 }
}

fn draw_on<B: DrawingBackend>(area: &DrawingArea<B, Shift>, chart: &Chart) -> Result<(), PlotError> {
    draw_chart(area, chart)
        .map_err(|error| PlotError::Draw { name: chart.name.clone(), reason: error.to_string() })
}

fn draw_chart<B: DrawingBackend>(
    area: &DrawingArea<B, Shift>,
    chart: &Chart,
) -> Result<(), DrawingAreaErrorKind<B::ErrorType>> {
    let points = || chart.series.iter().flat_map(|(_, points)| points.iter());
    let (right, top) = (bound(points().map(|point| point.0)), bound(points().map(|point| point.1)));
    area.fill(&WHITE)?;
    let mut axes = ChartBuilder::on(area)
        .caption(&chart.title, ("sans-serif", 20))
        .margin(16)
        .x_label_area_size(50)
        .y_label_area_size(80)
        .build_cartesian_2d(0.0..right, 0.0..top)?;
    let digits = |range: f64| if range < 10.0 { 2 } else { 0 };
    let (x_digits, y_digits) = (digits(right), digits(top));
    axes.configure_mesh()
        .light_line_style(TRANSPARENT)
        .x_desc(chart.x)
        .y_desc(chart.y)
        .x_labels(10)
        .y_labels(8)
        .x_label_formatter(&|x| format!("{x:.x_digits$}"))
        .y_label_formatter(&|y| format!("{y:.y_digits$}"))
        .label_style(("sans-serif", 14))
        .axis_desc_style(("sans-serif", 16))
        .draw()?;
    for (index, (name, points)) in chart.series.iter().enumerate() {
        let color = COLORS[index % COLORS.len()];
        if chart.lines {
            axes.draw_series(LineSeries::new(points.iter().copied(), color.stroke_width(2)))?;
        }
        let dots = points.iter().map(|&point| Circle::new(point, 4, color.filled()));
        axes.draw_series(dots)?
            .label(name)
            .legend(move |(x, y)| Rectangle::new([(x, y - 5), (x + 14, y + 5)], color.filled()));
    }
    axes.configure_series_labels()
        .background_style(WHITE.mix(0.85))
        .border_style(BLACK.mix(0.4))
        .label_font(("sans-serif", 14))
        .position(SeriesLabelPosition::UpperRight)
        .draw()?;
    drop(axes);
    area.present()
}

const TRANSPARENT: RGBAColor = RGBAColor(255, 255, 255, 0.0);

#[cfg(test)]
mod tests {
    use super::*;

    fn chart() -> Chart {
        let points = vec![(100.0, 1.0), (200.0, 3.0)];
        Chart {
            name: "t-time".to_owned(),
            title: "t: time spent".to_owned(),
            x: "creations",
            y: "ms",
            series: vec![("none".to_owned(), points), ("adaptive".to_owned(), vec![(100.0, 0.5)])],
            lines: true,
        }
    }

    #[test]
    fn a_plot_is_an_svg_and_a_png_of_the_same_size() {
        let folder = tempfile::tempdir().unwrap();
        let (svg, png) = (folder.path().join("a.svg"), folder.path().join("a.png"));
        draw_svg(&svg, &chart()).unwrap();
        draw_png(&png, &chart()).unwrap();
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
        let error = draw_svg(Path::new("/nonexistent/a.svg"), &chart()).unwrap_err();
        assert_eq!(error.to_string(), "/nonexistent/a.svg: cannot be written");
    }
}
