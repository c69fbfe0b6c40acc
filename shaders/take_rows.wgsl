// y[i, b] = x[index[i], b]; an index outside 0..D-1 gives 0 (the op's guard raises the error).
const D = 64;
const B = 64;

fn element(i: i32) {
  let row = i32(load_index(i / B));
  var v = Acc(0);
  if ((row >= 0) & (row < D)) { v = load_x(row, i % B); }
  store(i, v);
}
