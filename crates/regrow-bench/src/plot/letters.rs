//! Letters for a bitmap: a backend of the plotting library that writes with a font of 8 by 8 points. The font is part of the
//! program, so plots look the same everywhere and need no installed font.

use font8x8::{BASIC_FONTS, UnicodeFonts};
use plotters::backend::DrawingBackend;
use plotters::style::text_anchor::{HPos, VPos};
use plotters_backend::{
    BackendColor, BackendCoord, BackendStyle, BackendTextStyle, DrawingErrorKind, FontTransform,
};

/// Points of a letter, each way.
const POINTS: u32 = 8;
/// From which size of a vector font a point is how many pixels wide.
const PIXELS: [(f64, u32); 2] = [(18.0, 2), (0.0, 1)];

/// A bitmap with letters.
pub(super) struct Lettered<B>(pub(super) B);

/// How many pixels a point of a letter is, each way.
fn pixels(size: f64) -> u32 {
    PIXELS.iter().find(|(from, _)| size >= *from).map_or(1, |(_, pixels)| *pixels)
}

/// The size of a line of text that is not turned.
fn extent(text: &str, size: f64) -> (u32, u32) {
    let letters = u32::try_from(text.chars().count()).unwrap_or(0);
    (letters * POINTS * pixels(size), POINTS * pixels(size))
}

fn signed(length: u32) -> i32 {
    i32::try_from(length).unwrap_or(i32::MAX)
}

impl<B: DrawingBackend> Lettered<B> {
    /// Draws a letter whose upper left corner, before it is turned, is so far from the anchor.
    fn letter<S: BackendTextStyle>(
        &mut self,
        letter: char,
        style: &S,
        anchor: BackendCoord,
        offset: (i32, i32),
    ) -> Result<(), DrawingErrorKind<B::ErrorType>> {
        let glyph = BASIC_FONTS.get(plain(letter)).unwrap_or_default();
        let size = signed(pixels(style.size()));
        for (row, bits) in (0..).zip(glyph) {
            for column in (0..8).filter(|column| bits >> column & 1 == 1) {
                for (right, down) in (0..size * size).map(|pixel| (pixel % size, pixel / size)) {
                    let at = (offset.0 + column * size + right, offset.1 + row * size + down);
                    let (x, y) = turned(&style.transform(), at);
                    self.0.draw_pixel((anchor.0 + x, anchor.1 + y), style.color())?;
                }
            }
        }
        Ok(())
    }
}

/// The letter itself, or one like it that the font has.
fn plain(letter: char) -> char {
    match letter {
        'µ' => 'u',
        other => other,
    }
}

/// A point, turned about the anchor.
fn turned(how: &FontTransform, (x, y): (i32, i32)) -> (i32, i32) {
    match how {
        FontTransform::None => (x, y),
        FontTransform::Rotate90 => (-y, x),
        FontTransform::Rotate180 => (-x, -y),
        FontTransform::Rotate270 => (y, -x),
    }
}

impl<B: DrawingBackend> DrawingBackend for Lettered<B> {
    type ErrorType = B::ErrorType;

    fn get_size(&self) -> (u32, u32) {
        self.0.get_size()
    }

    fn ensure_prepared(&mut self) -> Result<(), DrawingErrorKind<Self::ErrorType>> {
        self.0.ensure_prepared()
    }

    fn present(&mut self) -> Result<(), DrawingErrorKind<Self::ErrorType>> {
        self.0.present()
    }

    fn draw_pixel(
        &mut self,
        point: BackendCoord,
        color: BackendColor,
    ) -> Result<(), DrawingErrorKind<Self::ErrorType>> {
        self.0.draw_pixel(point, color)
    }

    fn draw_line<S: BackendStyle>(
        &mut self,
        from: BackendCoord,
        to: BackendCoord,
        style: &S,
    ) -> Result<(), DrawingErrorKind<Self::ErrorType>> {
        self.0.draw_line(from, to, style)
    }

    fn draw_rect<S: BackendStyle>(
        &mut self,
        from: BackendCoord,
        to: BackendCoord,
        style: &S,
        fill: bool,
    ) -> Result<(), DrawingErrorKind<Self::ErrorType>> {
        self.0.draw_rect(from, to, style, fill)
    }

    fn estimate_text_size<S: BackendTextStyle>(
        &self,
        text: &str,
        style: &S,
    ) -> Result<(u32, u32), DrawingErrorKind<Self::ErrorType>> {
        Ok(extent(text, style.size()))
    }

    fn draw_text<S: BackendTextStyle>(
        &mut self,
        text: &str,
        style: &S,
        anchor: BackendCoord,
    ) -> Result<(), DrawingErrorKind<Self::ErrorType>> {
        let (width, height) = extent(text, style.size());
        let left = match style.anchor().h_pos {
            HPos::Left => 0,
            HPos::Right => -signed(width),
            HPos::Center => -signed(width) / 2,
        };
        let top = match style.anchor().v_pos {
            VPos::Top => 0,
            VPos::Center => -signed(height) / 2,
            VPos::Bottom => -signed(height),
        };
        let step = signed(POINTS * pixels(style.size()));
        for (index, letter) in (0..).zip(text.chars()) {
            self.letter(letter, style, anchor, (left + index * step, top))?;
        }
        Ok(())
    }
}
