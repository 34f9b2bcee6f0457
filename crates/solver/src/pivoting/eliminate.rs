//! Gaussian elimination of a sparse basis: columns and rows with one entry first, then pivots that are large enough in their row and
//! promise few new entries (after Markowitz, with Suhl's way to look at few of them), and what has become dense at once.

use super::factors::{Entries, NOTHING, Order, transposed};

/// A pivot has at least this part of the largest entry of its row.
const PIVOT_PART: f64 = 0.1;
/// Rows and columns that are looked at for one pivot.
const CANDIDATES_MAX: usize = 4;
/// What is left is dense from this size and this share of entries on.
const DENSE_SIZE: usize = 5;
const DENSE_SHARE: f64 = 0.71;
/// In a dense rest smaller pivots are none.
const DENSE_PIVOT_MIN: f64 = 1e-20;

/// Active rows or columns by their number of entries; who came last is first.
struct Counted {
    heads: Vec<Option<usize>>,
    next: Vec<Option<usize>>,
    previous: Vec<Option<usize>>,
}

impl Counted {
    fn new(size: usize) -> Self {
        Self { heads: vec![None; size + 1], next: vec![None; size], previous: vec![None; size] }
    }

    fn add(&mut self, index: usize, count: usize) {
        let head = self.heads[count].replace(index);
        self.previous[index] = None;
        self.next[index] = head;
        if let Some(head) = head {
            self.previous[head] = Some(index);
        }
    }

    fn remove(&mut self, index: usize, count: usize) {
        let (previous, next) = (self.previous[index].take(), self.next[index].take());
        match previous {
            Some(previous) => self.next[previous] = next,
            None => self.heads[count] = next,
        }
        if let Some(next) = next {
            self.previous[next] = previous;
        }
    }
}

pub(super) struct Elimination {
    pub f_columns: Vec<Entries>,
    /// By row: what is left of the basis, and V where a row is done.
    pub v_rows: Vec<Entries>,
    pub pivots: Vec<f64>,
    pub rows: Order,
    pub columns: Order,
    /// Rows of each active column.
    within: Vec<Vec<usize>>,
    rows_by_count: Counted,
    columns_by_count: Counted,
    /// Columns in which no pivot is large enough; they are looked at again when they have one entry.
    is_put_off: Vec<bool>,
    /// Largest entry of a row, while it is known.
    largest: Vec<Option<f64>>,
    /// The pivot's row by column, while it is taken off others.
    work: Vec<f64>,
    is_of_pivot: Vec<bool>,
}

impl Elimination {
    /// Eliminates a basis that is given by column; `None` where it has no inverse.
    pub(super) fn run(columns: Vec<Entries>) -> Option<Self> {
        let size = columns.len();
        let mut new = Self {
            f_columns: vec![Entries::new(); size],
            v_rows: transposed(&columns),
            pivots: vec![0.0; size],
            rows: Order::new(size),
            columns: Order::new(size),
            within: Vec::new(),
            rows_by_count: Counted::new(size),
            columns_by_count: Counted::new(size),
            is_put_off: vec![false; size],
            largest: vec![None; size],
            work: vec![0.0; size],
            is_of_pivot: vec![false; size],
        };
        let (first, last) = new.singles(&columns)?;
        let first = new.take_singles(&columns, first, last);
        new.nucleus(&columns, first)?;
        Some(new)
    }

    /// Columns with one entry go to the front, then rows with one entry to the back; what is left between.
    fn singles(&mut self, columns: &[Entries]) -> Option<(usize, usize)> {
        let (mut first, mut last) = (0, columns.len());
        let mut counts: Vec<usize> = columns.iter().map(Vec::len).collect();
        let mut list: Vec<usize> = (0..columns.len()).filter(|&column| counts[column] == 1).collect();
        while let Some(column) = list.pop() {
            let &(row, _) = columns[column].iter().find(|&&(row, _)| self.rows.place[row] >= first)?;
            self.rows.swap(first, self.rows.place[row]);
            self.columns.swap(first, self.columns.place[column]);
            first += 1;
            for &(other, _) in &self.v_rows[row] {
                counts[other] -= 1;
                if counts[other] == 1 {
                    list.push(other);
                }
            }
        }
        let is_active = |row: usize| self.rows.place[row] >= first;
        let mut counts: Vec<usize> =
            (0..columns.len()).map(|row| if is_active(row) { self.v_rows[row].len() } else { 0 }).collect();
        let mut list: Vec<usize> = (0..columns.len()).filter(|&row| counts[row] == 1).collect();
        while let Some(row) = list.pop() {
            let &(column, _) =
                self.v_rows[row].iter().find(|&&(index, _)| self.columns.place[index] < last)?;
            last -= 1;
            self.rows.swap(last, self.rows.place[row]);
            self.columns.swap(last, self.columns.place[column]);
            for &(other, _) in &columns[column] {
                if counts[other] > 0 {
                    counts[other] -= 1;
                    if counts[other] == 1 {
                        list.push(other);
                    }
                }
            }
        }
        Some((first, last))
    }

    /// Puts pivots with one entry before all others and takes them; where the others begin.
    fn take_singles(&mut self, columns: &[Entries], first: usize, last: usize) -> usize {
        let size = columns.len();
        for order in [&mut self.rows, &mut self.columns] {
            order.at[last..].reverse();
            order.at[first..].rotate_left(last - first);
            for (place, &index) in order.at.iter().enumerate() {
                order.place[index] = place;
            }
        }
        let begin = first + size - last;
        for place in 0..first {
            let (row, column) = (self.rows.at[place], self.columns.at[place]);
            self.pivots[row] = take(&mut self.v_rows[row], column);
        }
        for place in first..begin {
            let (row, column) = (self.rows.at[place], self.columns.at[place]);
            self.v_rows[row].clear();
            let pivot = columns[column].iter().find(|&&(index, _)| index == row).map_or(0.0, |entry| entry.1);
            self.pivots[row] = pivot;
            let below = columns[column].iter().filter(|&&(index, _)| self.rows.place[index] > place);
            self.f_columns[row] = below.map(|&(index, value)| (index, value / pivot)).collect();
        }
        begin
    }

    fn nucleus(&mut self, columns: &[Entries], begin: usize) -> Option<()> {
        let size = columns.len();
        self.within = vec![Vec::new(); size];
        let mut entries = 0;
        for place in begin..size {
            let (row, column) = (self.rows.at[place], self.columns.at[place]);
            self.v_rows[row].retain(|&(index, _)| self.columns.place[index] >= begin);
            let indices = columns[column].iter().map(|&(index, _)| index);
            self.within[column] = indices.filter(|&index| self.rows.place[index] >= begin).collect();
            self.rows_by_count.add(row, self.v_rows[row].len());
            self.columns_by_count.add(column, self.within[column].len());
            entries += self.v_rows[row].len();
        }
        for place in begin..size {
            let left = size - place;
            if left >= DENSE_SIZE && entries as f64 / (left as f64 * left as f64) >= DENSE_SHARE {
                return self.dense(place);
            }
            let (row, column) = self.choose()?;
            self.rows.swap(place, self.rows.place[row]);
            self.columns.swap(place, self.columns.place[column]);
            self.eliminate(row, column);
            entries = self.rows.at[place + 1..].iter().map(|&row| self.v_rows[row].len()).sum();
        }
        Some(())
    }

    fn largest(&mut self, row: usize) -> f64 {
        let entries = &self.v_rows[row];
        *self.largest[row]
            .get_or_insert_with(|| entries.iter().fold(-1.0, |most: f64, &(_, value)| most.max(value.abs())))
    }

    /// Row and column of the next pivot.
    fn choose(&mut self) -> Option<(usize, usize)> {
        if let Some(column) = self.columns_by_count.heads[1] {
            return Some((self.within[column][0], column));
        }
        if let Some(row) = self.rows_by_count.heads[1] {
            return Some((row, self.v_rows[row][0].0));
        }
        let (mut best, mut least, mut seen) = (None, f64::INFINITY, 0);
        for count in 2..self.pivots.len() + 1 {
            let mut next = self.columns_by_count.heads[count];
            while let Some(column) = next {
                next = self.columns_by_count.next[column];
                let Some((row, others)) = self.shortest_row(column, count) else {
                    self.columns_by_count.remove(column, count);
                    self.is_put_off[column] = true;
                    continue;
                };
                if is_next(&mut best, &mut least, &mut seen, (row, column), (others, count)) {
                    return best;
                }
            }
            let mut next = self.rows_by_count.heads[count];
            while let Some(row) = next {
                next = self.rows_by_count.next[row];
                let Some((column, others)) = self.shortest_column(row, count) else { continue };
                if is_next(&mut best, &mut least, &mut seen, (row, column), (others, count)) {
                    return best;
                }
            }
        }
        best
    }

    /// Of a column's rows where its entry is large enough the one with the fewest entries; the first that has no more than enough will do.
    fn shortest_row(&mut self, column: usize, enough: usize) -> Option<(usize, usize)> {
        let mut best = None;
        for index in 0..self.within[column].len() {
            let row = self.within[column][index];
            let count = self.v_rows[row].len();
            if best.is_some_and(|(_, fewest)| count >= fewest) {
                continue;
            }
            let largest = self.largest(row);
            let value =
                self.v_rows[row].iter().find(|&&(known, _)| known == column).map_or(0.0, |entry| entry.1);
            if value.abs() >= PIVOT_PART * largest {
                best = Some((row, count));
                if count <= enough {
                    break;
                }
            }
        }
        best
    }

    fn shortest_column(&mut self, row: usize, enough: usize) -> Option<(usize, usize)> {
        let largest = self.largest(row);
        let mut best = None;
        for &(column, value) in &self.v_rows[row] {
            let count = self.within[column].len();
            if best.is_some_and(|(_, fewest)| count >= fewest) || value.abs() < PIVOT_PART * largest {
                continue;
            }
            best = Some((column, count));
            if count <= enough {
                break;
            }
        }
        best
    }

    /// Takes the pivot's row off all rows that have an entry in its column.
    fn eliminate(&mut self, row: usize, column: usize) {
        self.rows_by_count.remove(row, self.v_rows[row].len());
        for &(index, value) in &self.v_rows[row] {
            if !self.is_put_off[index] {
                self.columns_by_count.remove(index, self.within[index].len());
            }
            let rows = &mut self.within[index];
            if let Some(at) = rows.iter().position(|known| *known == row) {
                rows.swap_remove(at);
            }
            (self.is_of_pivot[index], self.work[index]) = (index != column, value);
        }
        let pivot = take(&mut self.v_rows[row], column);
        self.pivots[row] = pivot;
        let others = std::mem::take(&mut self.within[column]);
        let mut parts = vec![0.0; others.len()];
        let entries = std::mem::take(&mut self.v_rows[row]);
        for (part, &other) in parts.iter_mut().zip(&others).rev() {
            self.rows_by_count.remove(other, self.v_rows[other].len());
            *part = take(&mut self.v_rows[other], column) / pivot;
            self.take_off(other, &entries, *part);
            self.rows_by_count.add(other, self.v_rows[other].len());
            self.largest[other] = None;
        }
        for &(index, _) in &entries {
            if !self.is_put_off[index] || self.within[index].len() == 1 {
                self.is_put_off[index] = false;
                self.columns_by_count.add(index, self.within[index].len());
            }
            self.is_of_pivot[index] = false;
        }
        self.v_rows[row] = entries;
        self.f_columns[row] = others.into_iter().zip(parts).collect();
    }

    /// Takes a part of the pivot's row off another; what that row has not yet is added, the last first.
    fn take_off(&mut self, row: usize, entries: &[(usize, f64)], part: f64) {
        let Self { v_rows, within, work, is_of_pivot, .. } = self;
        v_rows[row].retain_mut(|(index, value)| {
            if !std::mem::take(&mut is_of_pivot[*index]) {
                return true;
            }
            *value -= part * work[*index];
            let is_left = value.abs() >= NOTHING;
            if !is_left && let Some(at) = within[*index].iter().position(|known| *known == row) {
                within[*index].swap_remove(at);
            }
            is_left
        });
        for &(index, _) in entries.iter().rev() {
            if std::mem::replace(&mut is_of_pivot[index], true) {
                let value = -part * work[index];
                if value.abs() >= NOTHING {
                    v_rows[row].push((index, value));
                    within[index].push(row);
                }
            }
        }
    }

    /// Eliminates what is left as one block, each pivot the largest of all.
    fn dense(&mut self, begin: usize) -> Option<()> {
        let size = self.pivots.len() - begin;
        let mut block = vec![vec![0.0; size]; size];
        for (line, &row) in block.iter_mut().zip(&self.rows.at[begin..]) {
            for (column, value) in self.v_rows[row].drain(..) {
                line[self.columns.place[column] - begin] = value;
            }
        }
        for place in 0..size {
            let (line, at) = largest_of(&block, place)?;
            block.swap(place, line);
            self.rows.swap(begin + place, begin + line);
            for line in &mut block {
                line.swap(place, at);
            }
            self.columns.swap(begin + place, begin + at);
            let (done, rest) = block.split_at_mut(place + 1);
            for line in rest.iter_mut().filter(|line| line[place] != 0.0) {
                line[place] /= done[place][place];
                let part = line[place];
                for (value, other) in line[place + 1..].iter_mut().zip(&done[place][place + 1..]) {
                    *value -= part * other;
                }
            }
        }
        for (place, line) in block.iter().enumerate() {
            let row = self.rows.at[begin + place];
            self.pivots[row] = line[place];
            for (at, &value) in line.iter().enumerate().filter(|(_, value)| **value != 0.0) {
                if at > place {
                    self.v_rows[row].push((self.columns.at[begin + at], value));
                } else if at < place {
                    self.f_columns[self.rows.at[begin + at]].push((row, value));
                }
            }
        }
        Some(())
    }
}

/// Notes a candidate for a pivot; whether it is to be taken without looking at others.
fn is_next(
    best: &mut Option<(usize, usize)>,
    least: &mut f64,
    seen: &mut usize,
    candidate: (usize, usize),
    (others, count): (usize, usize),
) -> bool {
    if others <= count {
        *best = Some(candidate);
        return true;
    }
    *seen += 1;
    let cost = (others - 1) as f64 * (count - 1) as f64;
    if cost < *least {
        (*best, *least) = (Some(candidate), cost);
    }
    *seen == CANDIDATES_MAX
}

/// Row and column of the largest entry from a place on.
fn largest_of(block: &[Vec<f64>], from: usize) -> Option<(usize, usize)> {
    let (mut found, mut most) = (None, DENSE_PIVOT_MIN);
    for (line, values) in block.iter().enumerate().skip(from) {
        for (at, value) in values.iter().enumerate().skip(from) {
            if value.abs() > most {
                (found, most) = (Some((line, at)), value.abs());
            }
        }
    }
    found
}

/// Takes an entry out of a row.
fn take(entries: &mut Entries, index: usize) -> f64 {
    let at = entries.iter().position(|&(known, _)| known == index);
    at.map_or(0.0, |at| entries.swap_remove(at).1)
}
