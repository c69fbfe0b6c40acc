// y[d, b] = sum of source[order[k], b] over bounds[d] <= k < bounds[d + 1], in that order: each
// thread owns one result, so the same bits every time.
const B = 64;

fn add(acc: Acc, k: i32, b: i32) -> Acc { return acc + load_source(i32(load_order(k)), b); }
fn add4(acc: Acc, k: i32, b: i32) -> Acc {
  return add(add(add(add(acc, k, b), k + 1, b), k + 2, b), k + 3, b);
}

fn element(i: i32) {
  let end = i32(load_bounds(i / B + 1));
  var k = i32(load_bounds(i / B));
  var acc = Acc(0);
  for (; k + 8 <= end; k += 8) { acc = add4(add4(acc, k, i % B), k + 4, i % B); }
  for (; k < end; k++) { acc = add(acc, k, i % B); }
  store(i, acc);
}
