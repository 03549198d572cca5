//! Metrics that know their labels: how they are registered, and the list of them.

use std::borrow::Cow;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use prometheus_client::metrics::counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge;
use prometheus_client::metrics::histogram;
use prometheus_client::registry::Registry;

/// The values of labels, beside their names.
type Labels<const N: usize> = [(&'static str, Cow<'static, str>); N];
type Inner = histogram::Histogram;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Only grows.
    Counter,
    /// As of now.
    Gauge,
    /// Times, counted by how long they were.
    Histogram,
}

#[derive(Clone, Debug)]
pub struct DescribedMetric {
    /// As it is written: that of a counter ends in `_total`. A histogram has `_bucket`, `_sum` and `_count`.
    pub name: String,
    pub kind: Kind,
    /// Names of its labels.
    pub labels: Vec<&'static str>,
    /// One line.
    pub help: &'static str,
}

/// A count without labels.
pub type Counter = counter::Counter<u64, AtomicU64>;
/// A value as of now, without labels.
pub type Gauge = gauge::Gauge<f64, AtomicU64>;

/// Counts by `N` labels.
#[derive(Clone, Debug)]
pub struct Counters<const N: usize> {
    names: [&'static str; N],
    family: Family<Labels<N>, Counter>,
}

/// Values by `N` labels.
#[derive(Clone, Debug)]
pub struct Gauges<const N: usize> {
    names: [&'static str; N],
    family: Family<Labels<N>, Gauge>,
}

/// Times without labels.
#[derive(Clone, Debug)]
pub struct Histogram(Inner);

/// Times by `N` labels.
#[derive(Clone, Debug)]
pub struct Histograms<const N: usize> {
    names: [&'static str; N],
    family: Family<Labels<N>, Inner, fn() -> Inner>,
}

/// From 100 µs to 1 min: starts, executions, requests.
const LONG: [f64; 14] = [
    0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 60.0,
];
/// From 5 µs to 1 s: writes to a log, calls of the store.
const SHORT: [f64; 12] = [
    0.000_005, 0.000_02, 0.000_1, 0.000_5, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.1, 0.25, 1.0,
];

fn labels<const N: usize, V: Into<Cow<'static, str>>>(names: [&'static str; N], values: [V; N]) -> Labels<N> {
    let mut values = values.map(Into::into);
    std::array::from_fn(|at| (names[at], std::mem::take(&mut values[at])))
}

impl<const N: usize> Counters<N> {
    /// One more.
    pub fn inc(&self, values: [&'static str; N]) {
        self.family.get_or_create(&labels(self.names, values)).inc();
    }

    /// So many more.
    pub fn add(&self, values: [&'static str; N], more: u64) {
        self.family
            .get_or_create(&labels(self.names, values))
            .inc_by(more);
    }

    /// Sets counters that are counted elsewhere.
    pub(crate) fn set<V: Into<Cow<'static, str>>>(&self, values: [V; N], count: u64) {
        let counter = self.family.get_or_create(&labels(self.names, values));
        counter.inner().store(count, std::sync::atomic::Ordering::Relaxed);
    }

    /// The counter of these values, for places that count often.
    pub fn of(&self, values: [&'static str; N]) -> Counter {
        self.family.get_or_create_owned(&labels(self.names, values))
    }
}

impl<const N: usize> Gauges<N> {
    /// As of now.
    pub fn set<V: Into<Cow<'static, str>>>(&self, values: [V; N], value: f64) {
        self.family.get_or_create(&labels(self.names, values)).set(value);
    }
}

impl Histogram {
    /// It took so long.
    pub fn observe(&self, time: Duration) {
        self.0.observe(time.as_secs_f64());
    }
}

impl<const N: usize> Histograms<N> {
    /// It took so long.
    pub fn observe(&self, values: [&'static str; N], time: Duration) {
        let of = self.family.get_or_create(&labels(self.names, values));
        of.observe(time.as_secs_f64());
    }
}

/// Registers metrics and lists them.
#[derive(Debug, Default)]
pub(crate) struct Catalog {
    registry: Registry,
    list: Vec<DescribedMetric>,
}

impl Catalog {
    fn note(&mut self, name: &str, help: &'static str, kind: Kind, labels: &[&'static str]) {
        self.list.push(DescribedMetric {
            name: name.to_owned(),
            kind,
            labels: labels.to_vec(),
            help,
        });
    }

    /// `name` ends in `_total`, which the encoder adds.
    fn counter_name<'a>(&mut self, name: &'a str, help: &'static str, labels: &[&'static str]) -> &'a str {
        self.note(name, help, Kind::Counter, labels);
        name.strip_suffix("_total").unwrap_or(name)
    }

    pub(crate) fn counter(&mut self, name: &'static str, help: &'static str) -> Counter {
        let counter = Counter::default();
        let name = self.counter_name(name, help, &[]);
        self.registry.register(name, help, counter.clone());
        counter
    }

    /// A count that is no whole number.
    pub(crate) fn float_counter(
        &mut self,
        name: &'static str,
        help: &'static str,
    ) -> counter::Counter<f64, AtomicU64> {
        let counter = counter::Counter::<f64, AtomicU64>::default();
        let name = self.counter_name(name, help, &[]);
        self.registry.register(name, help, counter.clone());
        counter
    }

    /// `known` values are there from the beginning, so that the first increase of each can be seen.
    pub(crate) fn counters<const N: usize>(
        &mut self,
        name: &'static str,
        help: &'static str,
        names: [&'static str; N],
        known: &[[&'static str; N]],
    ) -> Counters<N> {
        let family = Family::default();
        let name = self.counter_name(name, help, &names);
        self.registry.register(name, help, family.clone());
        let counters = Counters { names, family };
        for values in known {
            counters.add(*values, 0);
        }
        counters
    }

    pub(crate) fn gauge(&mut self, name: &'static str, help: &'static str) -> Gauge {
        let gauge = Gauge::default();
        self.note(name, help, Kind::Gauge, &[]);
        self.registry.register(name, help, gauge.clone());
        gauge
    }

    pub(crate) fn gauges<const N: usize>(
        &mut self,
        name: &'static str,
        help: &'static str,
        names: [&'static str; N],
    ) -> Gauges<N> {
        let family = Family::default();
        self.note(name, help, Kind::Gauge, &names);
        self.registry.register(name, help, family.clone());
        Gauges { names, family }
    }

    /// Histogram of calls that normally take microseconds.
    pub(crate) fn short_histogram(&mut self, name: &'static str, help: &'static str) -> Histogram {
        let histogram = Inner::new(SHORT);
        self.note(name, help, Kind::Histogram, &[]);
        self.registry.register(name, help, histogram.clone());
        Histogram(histogram)
    }

    /// Histograms of calls that normally take microseconds.
    pub(crate) fn short_histograms<const N: usize>(
        &mut self,
        name: &'static str,
        help: &'static str,
        names: [&'static str; N],
    ) -> Histograms<N> {
        self.histograms(name, help, names, || Inner::new(SHORT))
    }

    /// Histogram of work that takes milliseconds or longer.
    pub(crate) fn long_histogram(&mut self, name: &'static str, help: &'static str) -> Histogram {
        let histogram = Inner::new(LONG);
        self.note(name, help, Kind::Histogram, &[]);
        self.registry.register(name, help, histogram.clone());
        Histogram(histogram)
    }

    /// Histograms of work that takes milliseconds or longer.
    pub(crate) fn long_histograms<const N: usize>(
        &mut self,
        name: &'static str,
        help: &'static str,
        names: [&'static str; N],
    ) -> Histograms<N> {
        self.histograms(name, help, names, || Inner::new(LONG))
    }

    fn histograms<const N: usize>(
        &mut self,
        name: &'static str,
        help: &'static str,
        names: [&'static str; N],
        new: fn() -> Inner,
    ) -> Histograms<N> {
        let family = Family::new_with_constructor(new);
        self.note(name, help, Kind::Histogram, &names);
        self.registry.register(name, help, family.clone());
        Histograms { names, family }
    }

    pub(crate) fn finish(self) -> (Registry, Vec<DescribedMetric>) {
        (self.registry, self.list)
    }
}
