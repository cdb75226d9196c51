"""The plot of steadiness: for each background work the rate that is kept, and how much longer the p99 is, as SVG."""

from xml.sax.saxutils import escape

COLOURS = {"point_select": "#0b7285", "update": "#e8853d", "read_write": "#5f3dc4"}
WIDTH, LABEL, BAR, GAP = 820, 130, 9, 10
# Where the scale of the times ends, in times of that alone.
MOST = 8


def steady(medians):
    """A line of bars for each work, mix and load: the rate to the left, the p99 to the right; budgets are lines."""
    half = (WIDTH - LABEL) / 2 - 20
    left, right = LABEL, LABEL + half + 40
    shapes, y, works = [], 50, list(dict.fromkeys(work for _, _, work in medians))
    for work in works:
        shapes.append(f'<text x="{LABEL - 6}" y="{y + BAR}" text-anchor="end">{escape(work)}</text>')
        for (mix, load, of), found in medians.items():
            if of != work:
                continue
            kept, slower = min(found.rate / found.rate_alone, 1.2), found.p99 / found.p99_alone
            opacity = 1 if load == "half" else 0.5
            for x, share, text in ((left, kept / 1.2, f"{100 * kept:.0f} %"), (right, min(slower, MOST) / MOST, f"{slower:.1f}")):
                width = share * (half - 40)
                shapes.append(f'<rect x="{x}" y="{y}" width="{width:.1f}" height="{BAR - 1}" fill="{COLOURS[mix]}" fill-opacity="{opacity}"/>')
                shapes.append(f'<text x="{x + width + 3:.1f}" y="{y + BAR - 1}" font-size="8">{text}</text>')
            y += BAR
        y += GAP
    for x, share in ((left, 0.5 / 1.2), (right, 2 / MOST)):
        at = x + share * (half - 40)
        shapes.append(f'<line x1="{at:.1f}" y1="44" x2="{at:.1f}" y2="{y - GAP}" stroke="#c92a2a" stroke-dasharray="3 3"/>')
    heads = [
        f'<text x="{left}" y="36">rate kept (budget: 50 % at least)</text>',
        f'<text x="{right}" y="36">p99, in times of that alone (budget: 2 at most)</text>',
        *(f'<text x="{left + 150 * at}" y="16" fill="{colour}">{mix}</text>' for at, (mix, colour) in enumerate(COLOURS.items())),
        f'<text x="{right + 130}" y="16">dark: half load, pale: saturated</text>',
    ]
    head = f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{y}" font-family="sans-serif" font-size="11">'
    return "\n".join([head, f'<rect width="{WIDTH}" height="{y}" fill="white"/>', *heads, *shapes, "</svg>", ""])
