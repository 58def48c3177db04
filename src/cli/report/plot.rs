//! Axes, lines, dots and bars as SVG. Colours are classes that the page's style fills in, so that
//! a chart is right in light and dark.

use maud::{Markup, html};

/// Width of a chart in its own units, which are about a pixel of a small screen.
pub const WIDTH: f64 = 380.0;
pub const HEIGHT: f64 = 230.0;

const LEFT: f64 = 58.0;
const RIGHT: f64 = 22.0;
const TOP: f64 = 12.0;
const BOTTOM: f64 = 40.0;
const TICKS: f64 = 4.0;
/// Letters that a label beside a bar has room for.
const LABEL: usize = 44;

pub struct Series {
    pub name: &'static str,
    pub colour: usize,
    pub points: Vec<(f64, f64)>,
}

/// A line from top to bottom with a word.
pub struct Marker {
    pub name: &'static str,
    pub colour: usize,
    pub x: f64,
}

pub struct Scale {
    low: f64,
    high: f64,
    from: f64,
    to: f64,
    log: bool,
    /// Lines are at whole numbers only.
    whole: bool,
}

impl Scale {
    pub fn across(low: f64, high: f64) -> Scale {
        Scale {
            low,
            high: high.max(low + 1.0),
            from: LEFT,
            to: WIDTH - RIGHT,
            log: false,
            whole: true,
        }
    }

    fn up(high: f64) -> Scale {
        Scale {
            low: 0.0,
            high: high.max(1e-9),
            from: HEIGHT - BOTTOM,
            to: TOP,
            log: false,
            whole: false,
        }
    }

    pub fn in_factors(self) -> Scale {
        Scale { log: true, ..self }
    }

    pub fn place(&self, value: f64) -> f64 {
        let part = match self.log {
            true => (value / self.low).ln() / (self.high / self.low).ln(),
            false => (value - self.low) / (self.high - self.low),
        };
        self.from + part.clamp(0.0, 1.0) * (self.to - self.from)
    }

    fn ticks(&self) -> Vec<f64> {
        if self.log {
            let (first, last) = (self.low.log10().ceil() as i32, self.high.log10().floor() as i32);
            return (first..=last).map(|power| 10_f64.powi(power)).collect();
        }
        let rough = (self.high - self.low) / TICKS;
        let power = 10_f64.powf(rough.log10().floor());
        let fits = [1.0, 2.0, 5.0, 10.0].into_iter().find(|one| one * power >= rough);
        let own = fits.unwrap_or(10.0) * power;
        let step = if self.whole { own.max(1.0) } else { own };
        let first = (self.low / step).ceil() as i64;
        (first..)
            .map(|at| at as f64 * step)
            .take_while(|tick| *tick <= self.high * 1.0001)
            .collect()
    }
}

pub struct Chart<'a> {
    pub x_scale: Scale,
    pub x: &'a dyn Fn(f64) -> String,
    pub y: &'a dyn Fn(f64) -> String,
    pub x_name: &'a str,
    pub series: &'a [Series],
    pub markers: &'a [Marker],
    /// The largest value that is drawn, in place of that of the points.
    pub y_max: Option<f64>,
}

impl Chart<'_> {
    pub fn draw(&self) -> Markup {
        let all = self.series.iter().flat_map(|one| &one.points).map(|(_, y)| *y);
        let high = self.y_max.unwrap_or_else(|| all.fold(0.0, f64::max));
        let up = Scale::up(high);
        html! {
            (self.axes(&up))
            @for one in self.series { (self.line(one, &up)) }
            @for (at, one) in self.markers.iter().enumerate() { (self.marker(one, at)) }
        }
    }

    fn axes(&self, up: &Scale) -> Markup {
        let (left, right, bottom) = (LEFT, WIDTH - RIGHT, HEIGHT - BOTTOM);
        html! {
            @for tick in up.ticks() {
                @let y = up.place(tick);
                line .grid x1=(left) x2=(right) y1=(px(y)) y2=(px(y)) {}
                text .tick x=(left - 6.0) y=(px(y + 4.0)) text-anchor="end" { ((self.y)(tick)) }
            }
            line .axis x1=(left) x2=(right) y1=(bottom) y2=(bottom) {}
            @for tick in self.x_scale.ticks() {
                @let x = self.x_scale.place(tick);
                line .axis x1=(px(x)) x2=(px(x)) y1=(bottom) y2=(bottom + 4.0) {}
                text .tick x=(px(x)) y=(bottom + 16.0) text-anchor="middle" { ((self.x)(tick)) }
            }
            text .name x=(px((left + right) / 2.0)) y=(HEIGHT - 6.0) text-anchor="middle" {
                (self.x_name)
            }
        }
    }

    fn line(&self, one: &Series, up: &Scale) -> Markup {
        let place = |(x, y): &(f64, f64)| (self.x_scale.place(*x), up.place(*y));
        let words: Vec<String> =
            one.points.iter().map(place).map(|(x, y)| format!("{},{}", px(x), px(y))).collect();
        html! {
            @if words.len() > 1 {
                polyline class={ "line c" (one.colour) } points=(words.join(" ")) {}
            }
            @if words.len() <= DOTS {
                @for (point, (x, y)) in one.points.iter().zip(one.points.iter().map(place)) {
                    circle class={ "dot c" (one.colour) } cx=(px(x)) cy=(px(y)) r="3" {
                        title { (one.name) ": " ((self.y)(point.1)) " (" ((self.x)(point.0)) ")" }
                    }
                }
            }
        }
    }

    fn marker(&self, one: &Marker, at: usize) -> Markup {
        let x = self.x_scale.place(one.x);
        let right = x > WIDTH * 0.7;
        let (to, anchor) = if right { (x - 4.0, "end") } else { (x + 4.0, "start") };
        html! {
            line class={ "mark c" (one.colour) }
                x1=(px(x)) x2=(px(x)) y1=(TOP) y2=(HEIGHT - BOTTOM) {}
            text class={ "word c" (one.colour) } x=(px(to)) y=(px(TOP + 12.0 + 15.0 * at as f64))
                text-anchor=(anchor) { (one.name) ": " ((self.x)(one.x)) }
        }
    }
}

/// Picks every `n`-th of a long list, its last one included, so that `most` are left.
pub fn thinned<T>(all: Vec<T>, most: usize) -> Vec<T> {
    let step = all.len().div_ceil(most.max(1)).max(1);
    let last = all.len().saturating_sub(1);
    all.into_iter()
        .enumerate()
        .filter(|(at, _)| (last - at).is_multiple_of(step))
        .map(|(_, x)| x)
        .collect()
}

/// Lines with more points than this have no dots.
const DOTS: usize = 50;

pub struct Bar {
    pub label: String,
    pub value: f64,
    pub text: String,
    pub colour: usize,
}

pub fn bars_height(count: usize) -> f64 {
    (count as f64).mul_add(36.0, 8.0)
}

pub fn bars(all: &[Bar]) -> Markup {
    let high = all.iter().map(|one| one.value).fold(1e-9, f64::max);
    html! {
        @for (at, one) in all.iter().enumerate() {
            @let y = at as f64 * 36.0 + 14.0;
            @let width = (one.value / high * (WIDTH - 110.0)).max(1.5);
            text .label x="4" y=(px(y)) { (short(&one.label)) title { (one.label) } }
            rect class={ "bar c" (one.colour) }
                x="4" y=(px(y + 4.0)) width=(px(width)) height="12" rx="2" {}
            text .tick x=(px(width + 10.0)) y=(px(y + 14.0)) { (one.text) }
        }
    }
}

fn short(label: &str) -> String {
    match label.char_indices().nth(LABEL) {
        Some((end, _)) => format!("{}...", &label[..end]),
        None => label.to_owned(),
    }
}

pub fn px(place: f64) -> f64 {
    (place * 10.0).round() / 10.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_within() {
        assert_eq!(Scale::up(9.0).ticks(), [0.0, 5.0]);
        assert_eq!(Scale::up(4.0).ticks(), [0.0, 1.0, 2.0, 3.0, 4.0]);
        assert_eq!(Scale::across(1.0, 1.0).ticks(), [1.0, 2.0]);
        assert_eq!(Scale::across(3.0, 2000.0).in_factors().ticks(), [10.0, 100.0, 1000.0]);
        let scale = Scale::across(0.0, 10.0);
        assert_eq!((scale.place(0.0), scale.place(10.0)), (LEFT, WIDTH - RIGHT));
        assert_eq!(scale.place(99.0), WIDTH - RIGHT);
    }

    #[test]
    fn long_lists_are_thinned_and_keep_their_end() {
        assert_eq!(thinned(vec![1, 2, 3], 9), [1, 2, 3]);
        let few = thinned((0..1000).collect(), 10);
        assert_eq!((few.len(), few.last()), (10, Some(&999)));
        assert!(thinned(Vec::<u8>::new(), 3).is_empty());
    }

    #[test]
    fn text_from_a_log_is_text_in_the_picture() {
        let bar = Bar { label: "<b>&".into(), value: 0.0, text: "0".into(), colour: 1 };
        let drawn = bars(&[bar]).into_string();
        assert!(drawn.contains("&lt;b&gt;&amp;") && !drawn.contains("<b>"), "{drawn}");
    }
}
