// A live figure: the answer itself, evaluated here. It carries pieces, each a tensor of coefficients times one family of
// functions along each axis, or sub-networks of waves; sliders, cuts and derivatives are evaluations of that formula.
const COLORS = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9"];
const BRIGHT = ["#56B4E9", "#F08A4B", "#2FC79C", "#E5A5C9", "#F0C050", "#B5DDF5"]; // the same on a dark page
const STOPS = [[68, 1, 84], [59, 82, 139], [33, 145, 140], [94, 201, 98], [253, 231, 37]]; // viridis
const GRID = 160, CURVE = 400, PLAY_SECONDS = 6, LEAST_HEIGHT = 220;

const numbers = (text) => new Float64Array(Uint8Array.from(atob(text), (c) => c.charCodeAt(0)).buffer);
const dark = window.matchMedia("(prefers-color-scheme: dark)");
const ink = (k) => (dark.matches ? BRIGHT : COLORS)[k % COLORS.length];
const show = (value) => (Number.isFinite(value) ? Number(value.toPrecision(7)).toString() : "–");
// Round values between two ends: steps of 1, 2 or 5 times a power of ten.
function ticks(low, high, most) {
  const rough = (high - low) / most, power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((digit) => digit * power).find((size) => size >= rough * (1 - 1e-9));
  const first = Math.ceil(low / step - 1e-9), count = Math.floor(high / step + 1e-9) - first + 1;
  return Array.from({ length: Math.max(count, 0) }, (_, i) => Number(((first + i) * step).toPrecision(12)));
}
const label = (value) => (value !== 0 && (Math.abs(value) < 1e-3 || Math.abs(value) >= 1e5) ? value.toExponential() : value.toString());
// The smallest and the largest of some values, apart where they are one.
function reach(values) {
  const [low, high] = values.reduce(([a, b], v) => (Number.isFinite(v) ? [Math.min(a, v), Math.max(b, v)] : [a, b]), [Infinity, -Infinity]);
  return high > low ? [low, high] : Number.isFinite(low) ? [low - 0.5, low + 0.5] : [0, 1];
}
const line = (low, high, count) => Float64Array.from({ length: count }, (_, i) => low + ((high - low) * i) / (count - 1));

// --- families of functions: a derivative of each at points, row by row ------------------------------------------------

const FAMILIES = {
  // Orthonormal Legendre functions of [low, high].
  legendre(axis, low, high, points, order) {
    const n = axis.count, scale = 2 / (high - low), out = new Float64Array(points.length * n);
    const rows = Array.from({ length: order + 1 }, () => new Float64Array(n + 1));
    for (let p = 0; p < points.length; p++) {
      const z = scale * (points[p] - low) - 1;
      for (let d = 0; d <= order; d++) {
        const row = rows[d];
        for (let k = 0; k < n; k++) {
          if (d === 0) row[k] = k === 0 ? 1 : k === 1 ? z : ((2 * k - 1) * z * row[k - 1] - (k - 1) * row[k - 2]) / k;
          else row[k] = k === 0 ? 0 : (k > 1 ? row[k - 2] : 0) + (2 * k - 1) * rows[d - 1][k - 1];
        }
      }
      for (let k = 0; k < n; k++) out[p * n + k] = rows[order][k] * Math.sqrt(2 * k + 1) * scale ** order;
    }
    return out;
  },
  // cos(rate (x - low) + phase).
  waves(axis, low, high, points, order) {
    const n = axis.rates.length, out = new Float64Array(points.length * n);
    for (let p = 0; p < points.length; p++) for (let k = 0; k < n; k++) {
      out[p * n + k] = axis.rates[k] ** order * Math.cos(axis.rates[k] * (points[p] - axis.low) + axis.phases[k] + (order * Math.PI) / 2);
    }
    return out;
  },
  // Values on even nodes of [low, high], straight between them.
  samples(axis, low, high, points, order) {
    const n = axis.count, step = (high - low) / (n - 1), out = new Float64Array(points.length * n);
    for (let p = 0; p < points.length; p++) {
      const at = (points[p] - low) / step, i = Math.min(Math.max(Math.floor(at), 0), n - 2);
      out[p * n + i] = order === 0 ? i + 1 - at : order === 1 ? -1 / step : 0;
      out[p * n + i + 1] = order === 0 ? at - i : order === 1 ? 1 / step : 0;
    }
    return out;
  },
};

// Where the answer ends along each axis: in time, where it can no longer be trusted.
const ends = (data) => data.bounds.map(([, high], j) => (data.axes[j] === "t" ? data.until ?? high : high));

// --- functions: values on the grid of some points along each axis -----------------------------------------------------

class Pieces {
  constructor(data) {
    this.m = data.bounds.length;
    this.pieces = data.pieces.map((piece) => ({
      box: piece.box, axes: piece.axes.map((axis) => ({ ...axis, rates: axis.rates && numbers(axis.rates), phases: axis.phases && numbers(axis.phases) })),
      coefficients: numbers(piece.coefficients),
    }));
    this.outputs = data.unknowns.length;
    this.lift = data.lift && new Pieces({ ...data, lift: null, pieces: [data.lift] }); // what is added over the whole domain
    this.bounds = data.bounds;
    this.ends = ends(data);
  }

  // Values (len of lines[0]) x (len of lines[1]) ... of output k; orders are those of the derivative.
  on(lines, orders, k) {
    const counts = lines.map((l) => l.length), total = counts.reduce((a, b) => a * b, 1);
    const out = new Float64Array(total).fill(NaN);
    for (const piece of this.pieces) {
      const inside = lines.map((points, j) => {
        const [low, high] = piece.box[j], slack = 1e-12 * (this.bounds[j][1] - this.bounds[j][0]);
        const rows = [], end = Math.min(high, this.ends[j]) + slack;
        for (let i = 0; i < points.length; i++) if (points[i] >= low - slack && points[i] <= end) rows.push(i);
        return rows;
      });
      if (inside.some((rows) => rows.length === 0)) continue;
      // Contract one axis after the other: (n_1, ..., n_m) becomes (P_1, n_2, ...), then (P_1, P_2, n_3, ...).
      let block = this.output(piece, k), before = 1, after = block.length;
      inside.forEach((rows, j) => {
        const axis = piece.axes[j], n = axis.rates ? axis.rates.length : axis.count;
        const table = FAMILIES[axis.family](axis, ...piece.box[j], rows.map((i) => lines[j][i]), orders[j]);
        after /= n;
        const next = new Float64Array(before * rows.length * after);
        for (let b = 0; b < before; b++) for (let p = 0; p < rows.length; p++) for (let i = 0; i < n; i++) {
          const weight = table[p * n + i];
          if (weight === 0) continue;
          const from = (b * n + i) * after, to = (b * rows.length + p) * after;
          for (let a = 0; a < after; a++) next[to + a] += weight * block[from + a];
        }
        block = next;
        before *= rows.length;
      });
      const put = (j, base, from) => {
        if (j === this.m) { out[base] = block[from]; return from + 1; }
        for (const i of inside[j]) from = put(j + 1, base * counts[j] + i, from);
        return from;
      };
      put(0, 0, 0);
    }
    if (this.lift) this.lift.on(lines, orders, k).forEach((value, i) => { out[i] += value; });
    return out;
  }

  output(piece, k) {
    if (this.outputs === 1) return piece.coefficients;
    const n = piece.coefficients.length / this.outputs, out = new Float64Array(n);
    for (let i = 0; i < n; i++) out[i] = piece.coefficients[i * this.outputs + k];
    return out;
  }
}

// A sum over sub-networks n and signs s of c_ns times the product over j of cos or sin(k_nj x_j).
class Subnets {
  constructor(m, frequencies, coefficients, outputs) {
    this.m = m;
    this.frequencies = numbers(frequencies);
    this.coefficients = numbers(coefficients);
    this.count = this.frequencies.length / m;
    this.outputs = outputs;
  }

  // For each axis a table (points, sub-networks, cosine and sine).
  tables(lines, orders) {
    const m = this.m;
    return lines.map((points, j) => {
      const table = new Float64Array(points.length * this.count * 2);
      for (let p = 0; p < points.length; p++) for (let n = 0; n < this.count; n++) {
        const rate = this.frequencies[n * m + j], angle = rate * points[p] + (orders[j] * Math.PI) / 2, at = 2 * (p * this.count + n);
        table[at] = rate ** orders[j] * Math.cos(angle);
        table[at + 1] = rate ** orders[j] * Math.sin(angle);
      }
      return table;
    });
  }

  // Coefficients (sub-networks, cosine and sine) along the first axis, at one point of each of the others.
  weights(tables, rows, k) {
    const m = this.m, half = 2 ** (m - 1), weights = new Float64Array(2 * this.count);
    for (let n = 0; n < this.count; n++) for (let first = 0; first < 2; first++) for (let s = 0; s < half; s++) {
      let factor = this.coefficients[(n * 2 * half + first * half + s) * this.outputs + k];
      for (let j = 1; j < m && factor !== 0; j++) factor *= tables[j][2 * (rows[j] * this.count + n) + ((s >> (m - 1 - j)) & 1)];
      weights[2 * n + first] += factor;
    }
    return weights;
  }

  on(lines, orders, k) {
    const counts = lines.map((l) => l.length), tables = this.tables(lines, orders);
    const rest = counts.slice(1).reduce((a, b) => a * b, 1), out = new Float64Array(counts[0] * rest);
    for (let q = 0; q < rest; q++) {
      const rows = [];
      let left = q;
      for (let j = this.m - 1; j > 0; j--) { rows[j] = left % counts[j]; left = Math.floor(left / counts[j]); }
      const weights = this.weights(tables, rows, k);
      for (let p = 0; p < counts[0]; p++) {
        let sum = 0;
        for (let i = 0, at = 2 * p * this.count; i < 2 * this.count; i++, at++) sum += tables[0][at] * weights[i];
        out[p * rest + q] = sum;
      }
    }
    return out;
  }
}

// Answers at Chebyshev points of parameters, the last axes; between them Lagrange's polynomials.
class Family {
  constructor(data) {
    this.members = data.members.map((own) => answerOf({ ...data, ...own, members: null, bounds: data.bounds.slice(0, -data.counts.length) }));
    this.counts = data.counts;
    this.inverse = data.inverse.map(numbers); // from values at the nodes to Legendre coefficients, (count, count)
    this.limits = data.bounds.slice(-data.counts.length);
    this.bounds = data.bounds;
    this.coarse = data.coarse && numbers(data.coarse); // the same for every other node of one parameter
    this.estimate = data.estimate;
    this.single = data.single;
    const form = (member) => JSON.stringify(member.pieces.map((piece) => [piece.box, piece.axes]));
    this.alike = this.members.every((member) => member instanceof Pieces && !member.lift && form(member) === form(this.members[0]));
  }

  // The member at one value of the parameters, where all have the same boxes and functions.
  blended(weights) {
    const pieces = this.members[0].pieces.map((piece, p) => {
      const own = this.members.map((member) => member.pieces[p].coefficients);
      return { ...piece, coefficients: piece.coefficients.map((_, q) => weights.reduce((sum, weight, i) => sum + weight * own[i][q], 0)) };
    });
    return Object.assign(Object.create(Pieces.prototype), this.members[0], { pieces });
  }

  // How far the answer is from the one by half of the nodes, at a value of one parameter, with the error of each solve.
  note(at) {
    if (!this.coarse || !(this.estimate > 0)) return this.estimate > 0 ? `estimated error ${this.estimate.toExponential(1)}` : "";
    const lines = this.bounds.slice(0, -1).map(([low, high]) => line(low, high, this.bounds.length > 2 ? 9 : 60));
    const own = Float64Array.of(at.at(-1)), count = (this.counts[0] + 1) / 2, table = FAMILIES.legendre({ count }, ...this.limits[0], own, 0);
    const weights = Array.from({ length: count }, (_, i) => table.reduce((sum, value, q) => sum + value * this.coarse[q * count + i], 0));
    const fine = this.on([...lines, own], this.bounds.map(() => 0), 0), low = lines.map(() => 0), rough = new Float64Array(fine.length);
    weights.forEach((weight, i) => this.members[2 * i].on(lines, low, 0).forEach((value, q) => { rough[q] += weight * value; }));
    let apart = 0, size = 0;
    fine.forEach((value, q) => { if (Number.isFinite(value + rough[q])) { apart += (value - rough[q]) ** 2; size += value * value; } });
    const here = Math.min(Math.sqrt(apart / (size || 1)) + this.single, this.estimate);
    return `estimated error here ${here.toExponential(1)}`;
  }

  on(lines, orders, k) {
    const cut = this.counts.length, inner = lines.slice(0, -cut), low = orders.slice(0, -cut);
    // Weights of all members at all values of the parameters, (values, members).
    let weights = [[1]];
    this.counts.forEach((count, j) => {
      const points = lines[lines.length - cut + j], table = FAMILIES.legendre({ count }, ...this.limits[j], points, orders[orders.length - cut + j]);
      const own = Array.from(points, (_, p) => Array.from({ length: count }, (_, i) => {
        let sum = 0;
        for (let q = 0; q < count; q++) sum += table[p * count + q] * this.inverse[j][q * count + i];
        return sum;
      }));
      weights = weights.flatMap((before) => own.map((row) => before.flatMap((a) => row.map((b) => a * b))));
    });
    if (weights.length === 1 && this.alike) return this.blended(weights[0]).on(inner, low, k);
    const values = this.members.map((member) => member.on(inner, low, k));
    const size = values[0].length, out = new Float64Array(size * weights.length);
    weights.forEach((row, p) => row.forEach((weight, i) => {
      if (weight !== 0) for (let q = 0; q < size; q++) out[q * weights.length + p] += weight * values[i][q];
    }));
    return out;
  }
}

// --- control laws: the law is a series in time and start; states follow from the dynamics ------------------------------

const OPERATIONS = {
  add: (a, b) => a + b, sub: (a, b) => a - b, mul: (a, b) => a * b, div: (a, b) => a / b, neg: (a) => -a, pow: Math.pow,
  lt: (a, b) => Number(a < b), gt: (a, b) => Number(a > b), le: (a, b) => Number(a <= b), ge: (a, b) => Number(a >= b),
  eq: (a, b) => Number(a === b), ne: (a, b) => Number(a !== b), and: (a, b) => Number(a && b), or: (a, b) => Number(a || b), not: (a) => Number(!a),
  exp2: (a) => 2 ** a, rem: (a, b) => a % b, is_finite: (a) => Number(Number.isFinite(a)), square: (a) => a * a,
  rsqrt: (a) => 1 / Math.sqrt(a), add_any: (a, b) => a + b, clamp: (low, a, high) => Math.min(Math.max(a, low), high),
  logistic: (a) => 1 / (1 + Math.exp(-a)), select_n: (which, no, yes) => (which ? yes : no),
};
for (const name of ["exp", "log", "sin", "cos", "tan", "tanh", "sinh", "cosh", "asin", "acos", "atan", "sqrt", "abs", "sign", "max", "min",
  "log1p", "expm1", "floor", "ceil", "atan2", "cbrt", "asinh", "acosh", "atanh"]) OPERATIONS[name] = Math[name];

// A function as a list of operations on numbers that are there already.
function repeated({ inputs, operations, outputs }) {
  const values = new Float64Array(inputs + operations.length), steps = operations.map(([name, ...at]) => [OPERATIONS[name], ...at]);
  operations.forEach(([name, value], i) => { if (name === "number") { values[inputs + i] = value; steps[i] = null; } });
  return (given) => {
    values.set(given);
    for (let i = 0; i < steps.length; i++) {
      const step = steps[i];
      if (step) values[inputs + i] = step[0](values[step[1]], values[step[2]], values[step[3]]);
    }
    return outputs.map((place) => values[place]);
  };
}

// Dormand and Prince's pair of orders 5 and 4.
const NODES = [0, 1 / 5, 3 / 10, 4 / 5, 8 / 9, 1, 1];
const STAGES = [[], [1 / 5], [3 / 40, 9 / 40], [44 / 45, -56 / 15, 32 / 9], [19372 / 6561, -25360 / 2187, 64448 / 6561, -212 / 729],
  [9017 / 3168, -355 / 33, 46732 / 5247, 49 / 176, -5103 / 18656], [35 / 384, 0, 500 / 1113, 125 / 192, -2187 / 6784, 11 / 84]];
const GAPS = [71 / 57600, 0, -71 / 16695, 71 / 1920, -17253 / 339200, 22 / 525, -1 / 40];

// Times, values and slopes of y' = slope(t, y) from 0 to an end, in steps of at most a 200th of it.
function integrated(slope, end, start) {
  const path = [{ t: 0, y: start, f: slope(0, start) }], most = end / 200, least = 1e-9 * end;
  let h = most;
  while (path.at(-1).t < end * (1 - 1e-14) && path.length < 5000) {
    const { t, y, f } = path.at(-1), k = [f];
    h = Math.min(h, most, end - t);
    let next = y;
    for (let s = 1; s < 7; s++) {
      next = y.map((value, i) => value + h * STAGES[s].reduce((sum, weight, j) => sum + weight * k[j][i], 0));
      k.push(slope(t + NODES[s] * h, next));
    }
    const gap = Math.max(...y.map((value, i) => Math.abs(h * GAPS.reduce((sum, weight, j) => sum + weight * k[j][i], 0)) / (1e-10 * (1 + Math.abs(value)))));
    if (!(gap > 1) || h <= least) path.push({ t: t + h, y: next, f: k[6] });
    h *= Math.min(Math.max(0.9 * (gap || 1e-6) ** -0.2, 0.2), 5);
    if (!Number.isFinite(h)) break;
  }
  return path;
}

class Law {
  constructor(data) {
    const { frequencies, coefficients, durationFrequencies, durationCoefficients } = this.law = data.law;
    this.d = data.axes.length - 1;
    this.controls = this.law.offset.length;
    this.waves = new Subnets(1 + this.d, frequencies, coefficients, this.controls); // of s = t / T and the start
    this.duration = durationFrequencies && new Subnets(this.d, durationFrequencies, durationCoefficients, 1);
    this.states = data.unknowns.length - this.controls;
    this.along = this.law.along && repeated(this.law.along);
    this.end = this.law.end && repeated(this.law.end);
    this.kept = new Map();
  }

  // The start moved into the set that the law is for.
  inside(v) {
    const { kind, radius, center, simplex } = this.law.starts;
    if (kind !== "ball") return v;
    const away = v.map((value, i) => value - center[i]), all = simplex ? [...away, -away.reduce((a, b) => a + b, 0)] : away;
    const far = Math.hypot(...all);
    return far <= radius ? v : center.map((value, i) => value + (away[i] * radius) / far);
  }

  from(start) {
    const key = String(start);
    if (!this.kept.has(key)) {
      if (this.kept.size > 400) this.kept.clear();
      this.kept.set(key, this.follow(start));
    }
    return this.kept.get(key);
  }

  follow(start) {
    const { offset, lower, upper, center, scale, horizon, starts } = this.law, d = this.d, waves = this.waves;
    const z = start.map((value, i) => [(value - center[i]) / scale[i]]), zero = [0, ...z.map(() => 0)];
    const tables = waves.tables([[0], ...z], zero), amplitudes = offset.map((_, k) => waves.weights(tables, zero, k));
    const T = horizon * (this.duration ? Math.exp(this.duration.on(z, zero.slice(1), 0)[0]) : 1);
    const control = (t) => {
      const u = offset.slice();
      for (let n = 0; n < waves.count; n++) {
        const angle = (waves.frequencies[n * (1 + d)] * t) / T, c = Math.cos(angle), s = Math.sin(angle);
        amplitudes.forEach((own, k) => { u[k] += own[2 * n] * c + own[2 * n + 1] * s; });
      }
      return u.map((value, k) => Math.min(Math.max(value, lower[k] ?? -Infinity), upper[k] ?? Infinity));
    };
    if (!this.along) return { T, control, path: null, cost: NaN };
    const v0 = d ? start : starts.center, lift = (v) => (starts.simplex ? [...v, 1 - v.reduce((a, b) => a + b, 0)] : v);
    const slope = (t, y) => {
      const x = lift(y.slice(0, -1)), out = this.along([t, ...x, ...control(t)]);
      return [...out.slice(0, y.length - 1), out.at(-1)];
    };
    const path = integrated(slope, T, [...v0, 0]), last = path.at(-1), x = lift(last.y.slice(0, -1));
    return { T, control, lift, path, cost: last.y.at(-1) + this.end([T, ...x])[0] };
  }

  // The state at a time by cubics through values and slopes.
  state({ path, lift }, t) {
    let low = 0, high = path.length - 1;
    while (high - low > 1) { const middle = (low + high) >> 1; if (path[middle].t <= t) low = middle; else high = middle; }
    const a = path[low], b = path[high], h = b.t - a.t, s = h ? (t - a.t) / h : 0, r = 1 - s;
    return lift(a.y.slice(0, -1).map((_, i) => r * r * ((1 + 2 * s) * a.y[i] + s * h * a.f[i]) + s * s * ((3 - 2 * s) * b.y[i] - r * h * b.f[i])));
  }

  on(lines, orders, k) {
    let starts = [[]];
    for (const points of lines.slice(1)) starts = starts.flatMap((v) => Array.from(points, (x) => [...v, x]));
    const out = new Float64Array(lines[0].length * starts.length).fill(NaN);
    starts.forEach((start, q) => {
      if (this.inside(start).some((value, i) => Math.abs(value - start[i]) > 1e-9)) return;
      const one = this.from(start);
      lines[0].forEach((t, p) => {
        if (t > one.T * (1 + 1e-12)) return;
        out[p * starts.length + q] = k < this.states ? this.state(one, t)[k] : one.control(t)[k - this.states];
      });
    });
    return out;
  }

  note(at) {
    const { cost, T } = this.from(at.slice(1));
    return (this.duration ? `final time ${show(T)}, ` : "") + (Number.isFinite(cost) ? `cost ${show(cost)}` : "");
  }
}

function answerOf(data) {
  if (data.law) return new Law(data);
  if (data.members) return new Family(data);
  if (!data.subnets) return new Pieces(data);
  return new Subnets(data.bounds.length, data.subnets.frequencies, data.subnets.coefficients, data.unknowns.length);
}

// --- the figure -------------------------------------------------------------------------------------------------------

function viridis(part) {
  const at = Math.min(Math.max(part, 0), 1) * (STOPS.length - 1), i = Math.min(Math.floor(at), STOPS.length - 2);
  return STOPS[i].map((low, c) => Math.round(low + (at - i) * (STOPS[i + 1][c] - low)));
}

// A line through points, broken where one has no place.
function traced(xs, ys) {
  const path = new Path2D();
  ys.forEach((y, i) => {
    if (!Number.isFinite(y)) return;
    if (Number.isFinite(ys[i - 1])) path.lineTo(xs[i], y); else path.moveTo(xs[i], y);
  });
  return path;
}

class LiveFigure {
  constructor(figure) {
    this.figure = figure;
    this.data = JSON.parse(figure.dataset.values);
    this.answer = answerOf(this.data);
    this.axes = this.data.axes;
    this.m = this.axes.length;
    this.at = ends(this.data).map((end, j) => (this.data.bounds[j][0] + end) / 2);
    const time = this.axes.indexOf("t");
    if (time >= 0) this.at[time] = this.m === 2 ? this.at[time] : this.data.bounds[time][0];
    this.unknown = 0;
    this.orders = this.axes.map(() => 0);
    this.canvas = figure.querySelector("canvas");
    this.output = figure.querySelector("output");
    this.pad = { left: 58, right: 70, top: 20, bottom: 36 };
    this.ranges = {};
    this.choose(this.views()[0]);
    this.controls();
    figure.hidden = false;
    const again = () => this.draw();
    window.addEventListener("resize", again);
    dark.addEventListener("change", again);
    this.draw();
  }

  // Which axes are drawn: pairs without time first, then with it, then single ones.
  views() {
    const own = [...this.axes.keys()], time = this.axes.indexOf("t");
    const pairs = own.flatMap((i) => own.filter((j) => j > i).map((j) => (i === time ? [i, j] : j === time ? [j, i] : [i, j])));
    if (this.data.law) return [[0], ...pairs.filter((pair) => pair.includes(0)), ...own.slice(1).map((i) => [i])];
    // Parameters of a family or a sweep come last: they have sliders.
    const first = this.m - (this.data.parameters || 0), rank = (pair) => 2 * pair.some((j) => j >= first) + pair.includes(time);
    pairs.sort((a, b) => rank(a) - rank(b));
    return [...pairs, ...own.map((i) => [i])];
  }

  choose(view) {
    this.view = view;
    this.mark = null;
    this.window = this.data.bounds.map((pair) => pair.slice()); // what is drawn of each axis
    this.slid = [...this.axes.keys()].filter((j) => !view.includes(j));
  }

  derivatives() {
    const out = [this.axes.map(() => 0)];
    if (this.data.plain) return out;
    for (const order of [1, 2]) this.axes.forEach((_, j) => out.push(this.axes.map((_, i) => (i === j ? order : 0))));
    return out;
  }

  name(unknown = this.unknown, orders = this.orders) {
    const marks = orders.map((order, j) => this.axes[j].repeat(order)).join("");
    return this.data.unknowns[unknown] + (marks ? "_" + marks : "");
  }

  controls() {
    const bar = this.figure.querySelector(".controls");
    bar.replaceChildren();
    const select = (label, options, chosen, change) => {
      if (options.length < 2) return;
      const box = document.createElement("label"), list = document.createElement("select");
      box.textContent = label + " ";
      options.forEach((text, i) => list.add(new Option(text, i, false, i === chosen)));
      list.addEventListener("change", () => change(Number(list.value)));
      box.append(list);
      bar.append(box);
    };
    const views = this.views(), derivatives = this.derivatives();
    // Curves that share the figure have one choice; else the unknown and its derivative are chosen apart.
    const all = this.view.length === 1 && this.data.together.length === this.data.unknowns.length, zero = derivatives[0];
    const choices = all ? derivatives.flatMap((d) => (d === zero ? [[0, d]] : this.data.unknowns.map((_, k) => [k, d]))) : derivatives.map((d) => [this.unknown, d]);
    const chosen = choices.findIndex(([k, d]) => String(d) === String(this.orders) && (d === zero || k === this.unknown));
    if (!all) select("show", this.data.unknowns, this.unknown, (i) => { this.unknown = i; this.controls(); this.draw(); });
    select(all || this.data.unknowns.length === 1 ? "show" : "as", choices.map(([k, d]) => (all && d === zero ? this.data.unknowns.join(", ") : this.name(k, d))), chosen,
      (i) => { [this.unknown, this.orders] = choices[i]; this.draw(); });
    select("over", views.map((v) => v.map((j) => this.axes[j]).join(", ")), views.findIndex((v) => String(v) === String(this.view)),
      (i) => { this.choose(views[i]); this.controls(); this.draw(); });
    for (const j of this.slid) {
      const [low, high] = this.data.bounds[j], box = document.createElement("label"), slider = document.createElement("input"), value = document.createElement("span");
      Object.assign(slider, { type: "range", min: 0, max: 1000, step: 1, value: Math.round((1000 * (this.at[j] - low)) / (high - low)) });
      slider.dataset.axis = this.axes[j];
      const told = () => { value.textContent = ` ${this.axes[j]} = ${show(this.at[j])}${this.unit(j)}`; };
      slider.addEventListener("input", () => {
        this.at[j] = low + ((high - low) * slider.value) / 1000;
        if (this.answer.inside) this.at = [this.at[0], ...this.answer.inside(this.at.slice(1))];
        bar.querySelectorAll("span[data-axis]").forEach((other) => other.told());
        this.draw();
      });
      value.dataset.axis = this.axes[j];
      value.told = told;
      told();
      box.append(slider, value);
      bar.append(box);
      if (this.axes[j] === "t") bar.append(this.player(j, slider));
    }
    if (this.answer.note) bar.append(Object.assign(document.createElement("strong"), { className: "told" }));
  }

  unit(j, before = " ", after = "") {
    const unit = this.data.units && this.data.units[j];
    return unit ? before + unit + after : "";
  }

  player(j, slider) {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = "play";
    let playing = false;
    button.addEventListener("click", () => {
      playing = !playing;
      button.textContent = playing ? "pause" : "play";
      let last = performance.now(), part = Number(slider.value) >= 1000 ? 0 : slider.value / 1000;
      const step = (now) => {
        if (!playing || !button.isConnected) return;
        part = Math.min(part + (now - last) / (1000 * PLAY_SECONDS), 1);
        last = now;
        slider.value = Math.round(1000 * part);
        slider.dispatchEvent(new Event("input"));
        if (part >= 1) { playing = false; button.textContent = "play"; } else requestAnimationFrame(step);
      };
      requestAnimationFrame(step);
    });
    return button;
  }

  // The lines of points of all axes when some are given.
  lines(given) {
    return this.axes.map((_, j) => given[j] || Float64Array.of(this.at[j]));
  }

  value(point, unknown = this.unknown, orders = this.orders) {
    return this.answer.on(point.map((x) => Float64Array.of(x)), orders, unknown)[0];
  }

  // Smallest and largest value over all sliders, sampled once for each unknown and derivative.
  range(unknown = this.unknown) {
    const key = `${unknown}|${this.orders}`;
    if (!this.ranges[key]) {
      const few = Math.min(Math.max(3, Math.round(20000 ** (1 / this.m))), 401);
      const sampled = () => reach(this.answer.on(this.data.bounds.map(([low, high]) => line(low, high, few)), this.orders, unknown));
      this.ranges[key] = this.data.ranges && !this.orders.some(Boolean) ? this.data.ranges[unknown] : sampled();
    }
    return this.ranges[key];
  }

  // What the curves reach: over all sliders, or in a closer look what is seen now; of one that runs away before a march stops, its most part.
  heights() {
    const [a] = this.view, [left, right] = this.window[a], [low, high] = this.data.bounds[a];
    const pairs = this.shown().map((k) => {
      const whole = this.range(k), closer = right - left < high - low;
      if (!closer && !Number.isFinite(this.data.until)) return whole;
      const seen = this.answer.on(this.lines({ [a]: line(left, right, CURVE) }), this.orders, k).filter(Number.isFinite).sort();
      const most = reach(seen.subarray(Math.floor(0.03 * seen.length), Math.ceil(0.97 * seen.length)));
      return closer ? reach(seen) : whole[1] - whole[0] > 20 * (most[1] - most[0]) ? most : whole;
    });
    return pairs.reduce(([p, q], [r, s]) => [Math.min(p, r), Math.max(q, s)]);
  }

  frame() {
    const ratio = window.devicePixelRatio || 1, width = this.canvas.clientWidth, pad = this.pad;
    const map = this.view.length === 2;
    const inner = { w: width - pad.left - (map ? pad.right : 14) };
    inner.h = Math.max(0.5 * inner.w, LEAST_HEIGHT);
    if (map && !this.view.some((j) => this.axes[j] === "t")) {
      const [a, b] = this.view.map((j) => this.data.bounds[j][1] - this.data.bounds[j][0]);
      inner.h = inner.w * Math.min(Math.max(b / a, 1 / 3), 1);
    }
    const height = inner.h + pad.top + pad.bottom;
    this.canvas.style.height = `${height}px`;
    this.canvas.width = Math.round(width * ratio);
    this.canvas.height = Math.round(height * ratio);
    const c = this.canvas.getContext("2d");
    c.scale(ratio, ratio);
    c.font = "12px system-ui, sans-serif";
    return { c, map, inner, width, height };
  }

  draw() {
    if (!this.canvas.clientWidth) return;
    const began = performance.now(), { c, map, inner, width, height } = this.frame(), pad = this.pad;
    const color = getComputedStyle(document.body).color;
    const [low, high] = map ? this.range() : this.heights();
    const told = this.figure.querySelector(".told");
    if (told) told.textContent = this.answer.note(this.at);
    const [a, b] = this.view, [left, right] = this.window[a];
    const [bottom, top] = map ? this.window[b] : [low - 0.04 * (high - low), high + 0.04 * (high - low)];
    const px = (x) => pad.left + ((x - left) / (right - left)) * inner.w, py = (y) => pad.top + (1 - (y - bottom) / (top - bottom)) * inner.h;
    this.plot = { px, py, left, right, bottom, top, inner };
    c.save();
    if (map) {
      if (this.data.outline && this.outlined()) c.clip(this.outlinePath(px, py), "evenodd");
      const across = line(left, right, GRID), up = line(bottom, top, GRID), values = this.answer.on(this.lines({ [a]: across, [b]: up }), this.orders, this.unknown);
      const image = new ImageData(GRID, GRID), stride = a < b ? [GRID, 1] : [1, GRID];
      const colors = Array.from({ length: 256 }, (_, i) => viridis(i / 255));
      for (let i = 0; i < GRID; i++) for (let j = 0; j < GRID; j++) {
        const value = values[i * stride[0] + j * stride[1]];
        if (!Number.isFinite(value)) continue;
        const at = 4 * ((GRID - 1 - j) * GRID + i), rgb = colors[Math.min(Math.max(Math.round((255 * (value - low)) / (high - low)), 0), 255)];
        image.data[at] = rgb[0]; image.data[at + 1] = rgb[1]; image.data[at + 2] = rgb[2]; image.data[at + 3] = 255;
      }
      const small = document.createElement("canvas");
      small.width = small.height = GRID;
      small.getContext("2d").putImageData(image, 0, 0);
      c.drawImage(small, pad.left, pad.top, inner.w, inner.h);
      c.restore();
      for (let i = 0; i < 100; i++) {
        c.fillStyle = `rgb(${viridis(i / 99)})`;
        c.fillRect(width - 56, pad.top + (1 - (i + 1) / 100) * inner.h, 12, inner.h / 100 + 1);
      }
    } else {
      const across = line(left, right, CURVE);
      c.beginPath(); c.rect(pad.left, pad.top, inner.w, inner.h); c.clip();
      for (const [lower, upper] of this.data.bands || []) {
        const ends = [lower, upper].map((k) => this.answer.on(this.lines({ [a]: across }), this.orders, k));
        c.beginPath();
        across.forEach((x, i) => c.lineTo(px(x), py(ends[0][i])));
        for (let i = CURVE - 1; i >= 0; i--) c.lineTo(px(across[i]), py(ends[1][i]));
        c.fillStyle = ink(0) + "44";
        c.fill();
      }
      for (const k of this.drawn()) {
        const values = this.answer.on(this.lines({ [a]: across }), this.orders, k);
        c.strokeStyle = ink(k);
        c.lineWidth = 1.8;
        c.stroke(traced(across.map(px), values.map(py)));
      }
      c.restore();
    }
    this.dots(c, color, low, high);
    this.beyond(c, color);
    this.decorate(c, color, { low, high, map, width, height });
    this.figure.dataset.ms = (performance.now() - began).toFixed(1);
  }

  // Unknowns whose curves share the figure.
  shown() {
    const alone = this.view.length === 2 || this.orders.some(Boolean) || !this.data.together.includes(this.unknown);
    return alone ? [this.unknown] : this.data.together;
  }

  // Of these, the curves: the ends of bands are filled between.
  drawn() {
    const ends = new Set((this.data.bands || []).flat());
    return this.shown().filter((k) => !ends.has(k));
  }

  // Readings of the unknown near what is drawn: within a twentieth of every slider's range.
  dots(c, color, low, high) {
    const given = this.data.readings;
    if (!given || given.unknown !== this.unknown || this.orders.some(Boolean)) return;
    this.places ||= [numbers(given.points), numbers(given.values)];
    const [points, values] = this.places, { px, py, inner } = this.plot, [a, b] = this.view;
    c.save();
    c.beginPath(); c.rect(this.pad.left, this.pad.top, inner.w, inner.h); c.clip();
    values.forEach((value, i) => {
      const at = points.subarray(i * this.m, (i + 1) * this.m);
      if (this.slid.some((j) => Math.abs(at[j] - this.at[j]) > 0.05 * (this.data.bounds[j][1] - this.data.bounds[j][0]))) return;
      c.beginPath();
      c.arc(px(at[a]), py(b === undefined ? value : at[b]), b === undefined ? 2 : 4, 0, 7);
      c.fillStyle = b === undefined ? color : `rgb(${viridis((value - low) / (high - low))})`;
      c.globalAlpha = b === undefined ? 0.5 : 1;
      c.fill();
      if (b !== undefined) { c.strokeStyle = "#fff"; c.lineWidth = 1.2; c.stroke(); }
    });
    c.restore();
  }

  // What lies beyond the time up to which the answer can be trusted is shaded.
  beyond(c, color) {
    const time = this.axes.indexOf("t"), place = this.view.indexOf(time), until = this.data.until;
    if (until === undefined || until === null || time < 0) return;
    const { px, py, inner } = this.plot;
    c.fillStyle = "rgba(128, 128, 128, 0.35)";
    const left = place === 0 ? Math.max(px(until), this.pad.left) : this.pad.left, wide = this.pad.left + inner.w - left;
    const tall = place > 0 ? py(until) - this.pad.top : place < 0 && this.at[time] <= until ? 0 : inner.h;
    if (!(wide > 0 && tall > 0)) return;
    c.fillRect(left, this.pad.top, wide, tall);
    c.fillStyle = color;
    c.textAlign = "center";
    c.fillText("no answer here", left + wide / 2, this.pad.top + tall / 2, wide);
  }

  outlined() {
    return this.view.every((j) => this.data.outline.axes.includes(this.axes[j]));
  }

  outlinePath(px, py) {
    const path = new Path2D(), flip = this.data.outline.axes[0] !== this.axes[this.view[0]];
    for (const loop of this.data.outline.loops) {
      loop.forEach(([x, y], i) => { const at = flip ? [px(y), py(x)] : [px(x), py(y)]; if (i) path.lineTo(...at); else path.moveTo(...at); });
      path.closePath();
    }
    return path;
  }

  decorate(c, color, { low, high, map, width, height }) {
    const pad = this.pad, { px, py, left, right, bottom, top, inner } = this.plot, [a, b] = this.view;
    c.fillStyle = c.strokeStyle = color;
    c.lineWidth = 1;
    c.strokeRect(pad.left, pad.top, inner.w, inner.h);
    c.textAlign = "center";
    for (const x of ticks(left, right, inner.w < 300 ? 4 : 6)) {
      c.fillRect(px(x), pad.top + inner.h, 1, 4);
      c.fillText(label(x), px(x), pad.top + inner.h + 16);
    }
    c.fillText(this.axes[a] + this.unit(a, " (", ")"), pad.left + inner.w / 2, height - 6);
    c.textAlign = "right";
    for (const y of ticks(bottom, top, 6)) {
      c.fillRect(pad.left - 4, py(y), 4, 1);
      c.fillText(label(y), pad.left - 7, py(y) + 4);
    }
    c.textAlign = "left";
    if (map) {
      c.fillText(this.axes[b] + this.unit(b, " (", ")"), 4, pad.top - 6);
      const marks = ticks(low, high, 6), down = (value) => (1 - (value - low) / (high - low)) * inner.h;
      // The ends of the bar are labeled too, where no round number is near.
      for (const end of [low, high]) {
        if (!marks.some((value) => Math.abs(down(value) - down(end)) < 14)) marks.push(Number(end.toPrecision(3)));
      }
      for (const value of marks) c.fillText(label(value), width - 40, pad.top + down(value) + 4);
      c.fillText(this.name(), width - 56, pad.top - 6);
    } else {
      let x = pad.left + 8;
      for (const k of this.drawn()) {
        c.fillStyle = ink(k);
        c.fillText(this.name(k), x, pad.top - 6);
        x += c.measureText(this.name(k)).width + 14;
      }
    }
    if (this.mark) {
      c.strokeStyle = color;
      c.setLineDash([4, 3]);
      c.beginPath();
      c.moveTo(px(this.mark[0]), pad.top); c.lineTo(px(this.mark[0]), pad.top + inner.h);
      if (map) { c.moveTo(pad.left, py(this.mark[1])); c.lineTo(pad.left + inner.w, py(this.mark[1])); }
      c.stroke();
      c.setLineDash([]);
      if (map) this.cut(c, low, high);
    }
  }

  // The cut along the pointer's row, drawn over the lower third of the map.
  cut(c, low, high) {
    const { px, inner } = this.plot, pad = this.pad, [a, b] = this.view, across = line(this.plot.left, this.plot.right, 200);
    const values = this.answer.on(this.lines({ [a]: across, [b]: Float64Array.of(this.mark[1]) }), this.orders, this.unknown);
    const base = pad.top + inner.h - 4, size = 0.3 * inner.h;
    const path = traced(across.map(px), values.map((value) => base - ((value - low) / (high - low)) * size));
    c.save();
    if (this.data.outline && this.outlined()) c.clip(this.outlinePath(px, this.plot.py), "evenodd");
    for (const [width, ink] of [[4, "rgba(255, 255, 255, 0.75)"], [1.6, "#c00"]]) {
      c.lineWidth = width; c.strokeStyle = ink; c.stroke(path);
    }
    c.restore();
  }

  read(x, y) {
    const [a, b] = this.view, clip = (j, value) => Math.min(Math.max(value, this.data.bounds[j][0]), this.data.bounds[j][1]);
    const point = this.at.slice();
    point[a] = clip(a, x);
    if (b !== undefined) point[b] = clip(b, y);
    this.mark = this.view.map((j) => point[j]);
    const names = this.axes.map((axis, j) => `${axis} = ${show(point[j])}${this.unit(j)}`).join(", ");
    const { px, py } = this.plot, ratio = window.devicePixelRatio || 1;
    const outside = b !== undefined && this.data.outline && this.outlined() &&
      !this.canvas.getContext("2d").isPointInPath(this.outlinePath((v) => px(v) * ratio, (v) => py(v) * ratio), px(point[a]) * ratio, py(point[b]) * ratio, "evenodd");
    const shown = this.shown();
    const values = outside ? [] : shown.map((k) => this.value(point, k));
    this.output.textContent = outside ? `${names}: outside the region` : `${names}: ${shown.map((k, i) => `${this.name(k)} = ${show(values[i])}`).join(", ")}`;
    this.figure.dataset.point = JSON.stringify(point);
    this.figure.dataset.value = JSON.stringify(values.map((v) => (Number.isFinite(v) ? v : null)));
    this.draw();
  }

  listen() {
    const move = (event) => {
      const box = this.canvas.getBoundingClientRect(), { left, right, bottom, top, inner } = this.plot;
      const x = left + ((event.clientX - box.left - this.pad.left) / inner.w) * (right - left);
      const y = top - ((event.clientY - box.top - this.pad.top) / inner.h) * (top - bottom);
      this.read(x, y);
    };
    this.canvas.addEventListener("pointermove", move);
    this.canvas.addEventListener("pointerdown", move);
    // Ctrl and the wheel, + and -: a closer look, evaluated anew; a double click or 0 shows all again.
    const zoom = (factor, [x, y]) => {
      this.view.forEach((j, place) => {
        const [low, high] = this.data.bounds[j], center = place ? y : x, [a, b] = this.window[j];
        const width = Math.min((b - a) * factor, high - low), from = Math.min(Math.max(center - ((center - a) / (b - a)) * width, low), high - width);
        this.window[j] = [from, from + width];
      });
      this.draw();
    };
    const here = () => this.mark || this.view.map((j) => (this.window[j][0] + this.window[j][1]) / 2);
    const whole = () => { this.window = this.data.bounds.map((pair) => pair.slice()); this.draw(); };
    this.canvas.addEventListener("wheel", (event) => {
      if (!event.ctrlKey) return;
      event.preventDefault();
      zoom(event.deltaY > 0 ? 1.25 : 0.8, here());
    }, { passive: false });
    this.canvas.addEventListener("dblclick", whole);
    this.canvas.addEventListener("pointerleave", () => { this.mark = null; this.draw(); });
    this.canvas.addEventListener("keydown", (event) => {
      if (event.key === "+" || event.key === "-") zoom(event.key === "+" ? 0.8 : 1.25, here());
      if (event.key === "0") whole();
      const step = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] }[event.key];
      if (!step) return;
      event.preventDefault();
      const { left, right, bottom, top } = this.plot, now = this.mark || [(left + right) / 2, (bottom + top) / 2];
      this.read(now[0] + (step[0] * (right - left)) / 100, (now[1] ?? 0) + (step[1] * (top - bottom)) / 100);
    });
  }
}

document.querySelectorAll("figure.answer").forEach((figure) => {
  figure.live = new LiveFigure(figure);
  figure.live.listen();
});
