#!/usr/bin/env python3
"""The statistics of `stoker bench` against SciPy, on random samples. Called with the build directory."""
import math
import os
import subprocess
import sys

try:
    import numpy as np
    from scipy import stats
except ImportError:
    print("SciPy is not installed")
    sys.exit(77)

import runlib


def ask(tool, lines):
    """One list of numbers per line."""
    done = subprocess.run([tool], input="\n".join(lines) + "\n", capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    answers = done.stdout.splitlines()
    assert len(answers) == len(lines), (len(answers), len(lines))
    return [[float(word) for word in answer.split()] for answer in answers]


def text(values):
    return " ".join(repr(float(v)) for v in values)


def close(found, wanted, relative=1e-10, absolute=1e-14):
    if math.isnan(wanted):
        return math.isnan(found)
    return abs(found - wanted) <= max(relative * abs(wanted), absolute)


def check(found, wanted, what, relative=1e-10, absolute=1e-14):
    assert close(found, float(wanted), relative, absolute), f"{what}: found {found!r}, wanted {float(wanted)!r}"


def sample(rng, n, kind):
    """Positive values: smooth, with ties, or with a heavy tail."""
    if kind == 0:
        return np.exp(0.1 * rng.standard_normal(n))
    if kind == 1:
        return 1 + rng.integers(0, 6, n) / 8
    return 1 + rng.pareto(1.5, n)


def asymptotic():
    """What SciPy calls the normal approximation depends on its version."""
    for name in ("asymptotic", "approx"):
        try:
            stats.wilcoxon([1, 2, 3, -4], correction=True, method=name)
            return name
        except (ValueError, TypeError):
            pass
    raise AssertionError("no normal approximation in this SciPy")


def test_normal(tool, directory):
    zs = list(np.linspace(-37, 8, 200))
    ps = [10.0 ** -e for e in range(1, 200)] + [0.5]
    lines = [f"normal {z!r} {p!r}" for z, p in zip(map(float, zs), ps)]
    for z, p, (cdf, quantile) in zip(zs, ps, ask(tool, lines)):
        check(cdf, stats.norm.cdf(z), ("cdf", z), 1e-11)
        check(quantile, stats.norm.ppf(p), ("quantile", p), 1e-11)
    upper = (0.6, 0.9, 0.999, 1 - 1e-12)
    for p, (_, quantile) in zip(upper, ask(tool, [f"normal 0 {p!r}" for p in upper])):
        check(quantile, stats.norm.ppf(p), ("quantile", p), 1e-11)


def test_student(tool, directory):
    rng = np.random.default_rng(1)
    cases = [(float(10 ** rng.uniform(-3, 2)), float(10 ** rng.uniform(-0.5, 6)), float(10 ** rng.uniform(-8, -0.01)))
             for _ in range(400)]
    cases += [(t, df, 0.05) for t in (0.5, 2.0, 4.0) for df in (1.0, 2.0, 39.9, 40.1, 999.5, 1000.5, 1e8)]
    for (t, df, p), (found, quantile) in zip(cases, ask(tool, [f"student {t!r} {df!r} {p!r}" for t, df, p in cases])):
        check(found, 2 * stats.t.sf(t, df), ("p", t, df), 1e-9, 1e-300)
        check(quantile, stats.t.isf(p / 2, df), ("quantile", p, df), 1e-9)


def test_binomial(tool, directory):
    rng = np.random.default_rng(2)
    cases = []
    for _ in range(400):
        n = int(10 ** rng.uniform(0, 6.5))
        spread = math.sqrt(n)
        k = int(min(n, max(0, n / 2 + rng.uniform(-5, 5) * spread)))
        q = float(rng.uniform(0.01, 0.99))
        cases.append((k, n, q))
    for (k, n, q), (half, any_p) in zip(cases, ask(tool, [f"binomial {k} {n} {q!r}" for k, n, q in cases])):
        check(half, stats.binom.cdf(k, n, 0.5), ("1/2", k, n), 1e-9, 1e-300)
        check(any_p, stats.binom.cdf(k, n, q), ("p", k, n, q), 1e-8, 1e-200)


def test_describe(tool, directory):
    rng = np.random.default_rng(3)
    samples = [sample(rng, int(rng.integers(1, 80)), i % 3) for i in range(300)]
    lines = [f"describe 0.95 {len(x)} {text(x)}" for x in samples]
    for x, found in zip(samples, ask(tool, lines)):
        q1, median, q3 = np.percentile(x, [25, 50, 75])
        sd = np.std(x, ddof=1) if len(x) > 1 else math.nan
        for value, wanted, what in zip(found, (np.mean(x), sd, median, x.min(), x.max(), q1, q3),
                                       ("mean", "sd", "median", "min", "max", "q1", "q3")):
            check(value, wanted, what, 1e-12)
        fence = 1.5 * (q3 - q1)
        assert found[7] == np.sum((x < q1 - fence) | (x > q3 + fence))
        # The interval inverts the sign test: SciPy knows it as the quantile test.
        rank = int(stats.binom.ppf(0.025, len(x), 0.5))
        while rank > 0 and stats.binom.cdf(rank - 1, len(x), 0.5) > 0.025:
            rank -= 1
        s = np.sort(x)
        assert bool(found[11]) == (rank > 0)
        rank = max(rank, 1)
        assert (found[8], found[9]) == (s[rank - 1], s[-rank]), (len(x), rank)
        check(found[10], max(0, 1 - 2 * stats.binom.cdf(rank - 1, len(x), 0.5)), "reached", 1e-12)


def differences(rng, n, kind):
    if kind == 0:
        return rng.standard_normal(n) + rng.uniform(-1, 1)
    if kind == 1:
        return rng.integers(-4, 7, n).astype(float)  # ties and zeros
    return rng.standard_cauchy(n) + 0.5


def test_wilcoxon(tool, directory):
    rng = np.random.default_rng(4)
    normal = asymptotic()
    cases = [differences(rng, int(rng.integers(1, 75)), i % 3) for i in range(600)]
    seen = {"plain": 0, "tied": 0, "normal": 0}
    for d, (_, _, p, exact) in zip(cases, ask(tool, [f"differences 1 {len(d)} {text(d)}" for d in cases])):
        left = d[d != 0]
        size = np.abs(left)
        assert bool(exact) == (len(left) <= 50)
        if not len(left):
            assert p == 1
        elif not exact:
            seen["normal"] += 1
            wanted = stats.wilcoxon(d, zero_method="wilcox", correction=True, method=normal).pvalue
            check(p, min(1, wanted), d)
        elif len(np.unique(size)) == len(left):
            seen["plain"] += 1
            check(p, stats.wilcoxon(left, method="exact").pvalue, d)
        elif len(left) <= 12:
            # Ties are counted, all signs of the shared ranks: a permutation test of their sum.
            seen["tied"] += 1
            ranks = stats.rankdata(size) * np.sign(left)
            judge = stats.permutation_test((ranks,), lambda x, axis: np.sum(x, axis=axis), permutation_type="samples",
                                           vectorized=True, n_resamples=np.inf, alternative="two-sided") \
                if len(left) > 1 else None
            check(p, min(1, judge.pvalue) if judge else 1, d)
    assert min(seen.values()) > 20, seen


def test_sign_flips_exact(tool, directory):
    rng = np.random.default_rng(5)
    cases = [differences(rng, int(rng.integers(2, 12)), i % 3) for i in range(120)]
    cases += [differences(rng, n, i) for n in (15, 16) for i in range(3)]
    for d, (p, exact, _, _) in zip(cases, ask(tool, [f"differences 1 {len(d)} {text(d)}" for d in cases])):
        assert exact == 1
        judge = stats.permutation_test((d,), lambda x, axis: np.sum(x, axis=axis), permutation_type="samples",
                                       vectorized=True, n_resamples=np.inf, alternative="two-sided")
        check(p, judge.pvalue, d)


def test_sign_flips_by_chance(tool, directory):
    rng = np.random.default_rng(6)
    cases = [differences(rng, int(n), i % 2) for i, n in enumerate(rng.integers(21, 120, 20))]
    for d, (p, exact, _, _) in zip(cases, ask(tool, [f"differences 9 {len(d)} {text(d)}" for d in cases])):
        assert exact == 0
        signs = rng.integers(0, 2, (50000, len(d))) * 2 - 1
        wanted = np.mean(np.abs(signs @ d) >= abs(d.sum()) * (1 - 1e-12))
        assert abs(p - wanted) <= 5 * math.sqrt(max(wanted, 1e-4) * (1 / 50000 + 1 / 20000)) + 1e-4, (p, wanted)


def walsh_interval(d, level):
    """The shifts that SciPy's signed-rank test does not reject at this level: ends of the Walsh averages."""
    n = len(d)
    means = np.sort([(d[i] + d[j]) / 2 for i in range(n) for j in range(i, n)])
    rank = 0
    while rank < len(means) // 2:
        # Between the averages rank and rank + 1 the rank sum of what lies below is `rank`.
        shift = (means[rank] + means[rank + 1]) / 2 if rank + 1 < len(means) else means[rank]
        if stats.wilcoxon(d - shift, method="exact").pvalue > level:
            break
        rank += 1
    # One that is rejected lies between the averages rank and rank + 1, counted from 1: the interval begins there.
    below = stats.wilcoxon(d - (means[0] - 1), method="exact").pvalue <= level
    return (means[rank], means[-1 - rank]) if below else (None, None)


def test_paired(tool, directory):
    rng = np.random.default_rng(7)
    cases = []
    for i in range(300):
        n = int(rng.integers(1, 40))
        cases.append((sample(rng, n, i % 3), sample(rng, n, i % 3) * rng.uniform(0.9, 1.2)))
    lines = [f"paired 0.95 {i} {len(a)} {text(a)} {text(b)}" for i, (a, b) in enumerate(cases)]
    intervals = 0
    for i, ((a, b), found) in enumerate(zip(cases, ask(tool, lines))):
        ratio, low, high, covered, median, sd, smaller, equal, p, exact, mean, mean_low, mean_high, p_mean = found
        d = np.log(b / a)
        n = len(d)
        walsh = [(d[i] + d[j]) / 2 for i in range(n) for j in range(i, n)]
        check(ratio, math.exp(np.median(walsh)), "Hodges-Lehmann", 1e-12)
        check(median, math.exp(np.median(d)), "median", 1e-12)
        check(sd, np.std(d, ddof=1) if n > 1 else math.nan, "sd", 1e-10, 1e-13)
        assert (smaller, equal) == (np.sum(b < a), np.sum(a == b))
        assert low <= ratio <= high and covered == (n >= 6) and exact == 1
        plain = n >= 6 and len(np.unique(np.abs(d))) == n and np.all(d != 0)
        if plain and n <= 25:
            intervals += 1
            wanted = walsh_interval(d, 0.05)
            check(low, math.exp(wanted[0]), ("low", n), 1e-12)
            check(high, math.exp(wanted[1]), ("high", n), 1e-12)
        if plain:
            check(p, stats.wilcoxon(d, method="exact").pvalue, "p")
            assert (low > 1 or high < 1) == (p <= 0.05), (n, p)
        # The ratio of means: Student's t on b/B - a/A, and sign flips of b - a.
        check(mean, np.mean(b) / np.mean(a), "means", 1e-12)
        if n > 1:
            e = b / np.mean(b) - a / np.mean(a)
            half = stats.sem(e) * stats.t.isf(0.025, n - 1)
            check(mean_low, mean * math.exp(-half), "low of the means", 1e-9)
            check(mean_high, mean * math.exp(half), "high of the means", 1e-9)
        if 2 <= n <= 12 and i % 3 != 1:
            judge = stats.permutation_test((b - a,), lambda x, axis: np.sum(x, axis=axis), permutation_type="samples",
                                           vectorized=True, n_resamples=np.inf, alternative="two-sided")
            check(p_mean, judge.pvalue, "p of the means")
    assert intervals > 50


def test_unpaired(tool, directory):
    rng = np.random.default_rng(8)
    cases = []
    for i in range(400):
        na, nb = (int(k) for k in rng.integers(1, 30, 2))
        cases.append((sample(rng, na, i % 3), sample(rng, nb, i % 3) * (rng.uniform(0.8, 1.3) if i % 3 != 1 else 1)))
    lines = [f"unpaired 0.95 {len(a)} {len(b)} {text(a)} {text(b)}" for a, b in cases]
    tied_exact = 0
    for (a, b), found in zip(cases, ask(tool, lines)):
        shifts = np.sort(np.log(b)[:, None] - np.log(a)[None, :], axis=None)
        check(found[0], math.exp(np.median(shifts)), "ratio", 1e-12)
        assert found[1] <= found[0] * (1 + 1e-12) and found[0] <= found[2] * (1 + 1e-12)
        tied = len(np.unique(np.concatenate([a, b]))) < len(a) + len(b)
        exact = len(a) + len(b) <= 20
        assert bool(found[5]) == exact
        if not exact:
            if np.unique(np.concatenate([a, b])).size > 1:
                check(found[4], stats.mannwhitneyu(b, a, method="asymptotic").pvalue, "Mann-Whitney")
        elif not tied:
            check(found[4], stats.mannwhitneyu(b, a, method="exact").pvalue, "exact Mann-Whitney")
        elif tied_exact < 25 and min(len(a), len(b)) > 1 and math.comb(len(a) + len(b), len(a)) < 20000:
            tied_exact += 1
            ranks = stats.rankdata(np.concatenate([a, b]))
            judge = stats.permutation_test((ranks[:len(a)], ranks[len(a):]), lambda x, y, axis: np.sum(x, axis=axis),
                                           vectorized=True, n_resamples=np.inf, permutation_type="independent")
            check(found[4], min(1, judge.pvalue), "exact Mann-Whitney with ties")
        if len(a) > 1 and len(b) > 1 and (np.ptp(a) or np.ptp(b)):
            welch = stats.ttest_ind(b, a, equal_var=False)
            check(found[6], welch.statistic, "t", 1e-9, 1e-9)
            check(found[8], welch.pvalue, "Welch", 1e-8)
        else:
            assert math.isnan(found[8])
    assert tied_exact >= 10


def find_tool(build):
    for place in ("tests", "tests/python", "."):
        path = os.path.join(build, place, "stats_tool")
        if os.path.exists(path):
            return path
    raise AssertionError(f"no stats_tool under {build}")


def main():
    tool = find_tool(os.path.abspath(sys.argv[1]))
    sys.exit(runlib.main(globals(), lambda test, program, directory: test(tool, directory)))


if __name__ == "__main__":
    main()
