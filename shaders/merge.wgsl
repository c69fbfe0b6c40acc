// order (runs, 2 L): each half of a run names places of a row of keys in ascending order; the whole
// run in that order, the left half first of equals. Each thread finds where one place goes.
const RUNS = 1; // of a row
const L = 32;

fn element(i: i32) {
  let run = i / (2 * L);
  let row = run / RUNS;
  let at = i % (2 * L);
  let left = at < L;
  let place = i32(load_order(run, at));
  let key = i32(load_key(row, place));
  let other = select(0, L, left);
  var low = 0;
  var high = L;
  while (low < high) {
    let middle = (low + high) / 2;
    let there = i32(load_key(row, i32(load_order(run, other + middle))));
    if ((there < key) | ((there == key) & !left)) { low = middle + 1; } else { high = middle; }
  }
  store(run * 2 * L + at % L + low, place);
}
