//! How much memory models have, and no more than they need.

use crate::measurement::{Series, Values};
use crate::model::Model;
use crate::refit::ModelSet;
use crate::term::Function;

impl ModelSet {
    /// Gives back the room that fitting left in its lists, and returns how many bytes of memory the set has, about.
    pub fn settle(&mut self) -> usize {
        let of_series: usize = self.series.iter_mut().map(settle_series).sum();
        let of_models: usize = self.models.iter_mut().flatten().map(settle_model).sum();
        let names = self.by_name.keys().map(|(callpath, metric)| text(callpath) + text(metric));
        let of_names = names.sum::<usize>() + allocated::<((String, String), usize)>(self.by_name.capacity());
        of_series + of_models + of_names + list(&mut self.series) + list(&mut self.models)
    }
}

fn settle_series(series: &mut Series) -> usize {
    let of_points = series.measurements.iter_mut().map(|point| {
        let values = match &mut point.values {
            Values::Each(values) => list(values),
            Values::Summary(_) => 0,
        };
        list(&mut point.coordinate) + values
    });
    let of_points: usize = of_points.sum();
    let names = text(&series.callpath) + text(&series.metric);
    of_points + names + list(&mut series.measurements) + list(&mut series.notes)
}

fn settle_model(model: &mut Model) -> usize {
    let of_alternatives = model.alternatives.iter_mut().map(|other| {
        let of_rows: usize = other.covariance.iter_mut().map(list).sum();
        settle_function(&mut other.function) + of_rows + list(&mut other.covariance)
    });
    let of_alternatives: usize = of_alternatives.sum();
    let of_function = settle_function(&mut model.function);
    let edges = [&mut model.edges.largest, &mut model.edges.smallest];
    let of_edges: usize =
        edges.into_iter().map(|edge| edge.iter_mut().map(list).sum::<usize>() + list(edge)).sum();
    let lists = list(&mut model.ranges) + list(&mut model.alternatives) + list(&mut model.notes);
    of_alternatives + of_function + of_edges + lists
}

fn settle_function(function: &mut Function) -> usize {
    let of_terms: usize = function.terms.iter_mut().map(|term| list(&mut term.factors)).sum();
    of_terms + list(&mut function.terms)
}

fn list<T>(list: &mut Vec<T>) -> usize {
    list.shrink_to_fit();
    allocated::<T>(list.capacity())
}

fn text(text: &String) -> usize {
    allocated::<u8>(text.capacity())
}

/// With what an allocator adds: its own word, and what makes it a multiple of 16.
fn allocated<T>(n: usize) -> usize {
    match n * size_of::<T>() {
        0 => 0,
        n_bytes => (n_bytes + 8).next_multiple_of(16).max(32),
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroUsize;

    use crate::{FitConfig, ModelSet, read};

    #[test]
    fn a_settled_set_says_the_same_and_has_about_as_much_memory_as_its_numbers() {
        let lines = |n: u32| (0..n).map(|i| format!("{},{}\n", 1 << (i % 8), i % 8 + 3)).collect::<String>();
        let fitted = |n| {
            let mut set = ModelSet::new(vec!["p".into()], FitConfig::default());
            let experiment = read(format!("p,a\n{}", lines(n)).as_bytes(), None).unwrap().1;
            set.absorb(vec![experiment], NonZeroUsize::MIN).unwrap();
            set
        };
        let mut set = fitted(1000);
        let before = set.clone();
        let n_bytes = set.settle();
        assert!(set.iter().zip(before.iter()).all(|(one, other)| one == other));
        assert_eq!(set.settle(), n_bytes);
        // 1,000 numbers more.
        let more = fitted(2000).settle();
        assert!((8_000..8_500).contains(&(more - n_bytes)), "{n_bytes} {more}");
    }
}
