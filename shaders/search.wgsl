// y[r, j] = how many of the sequence's keys, which ascend in each row, are smaller than the value's.
const M = 64;
const N = 64;

fn element(i: i32) {
  let value = i32(load_value(i / M, i % M));
  var low = 0;
  var high = N;
  while (low < high) {
    let middle = (low + high) / 2;
    if (i32(load_sequence(i / M, middle)) < value) { low = middle + 1; } else { high = middle; }
  }
  store(i, low);
}
