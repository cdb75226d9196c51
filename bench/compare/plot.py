"""The plot of a comparison: a bar for each system and number of clients, server CPU per operation, as SVG."""

from xml.sax.saxutils import escape

COLOURS = {
    "nines": "#0b7285", "large": "#3b8ea5", "processes": "#66b2c0", "mariadb": "#c92a2a", "galera": "#e8853d", "redis": "#868e96", "echo": "#ced4da",
}
WIDTH, LABEL, BAR, GAP = 760, 250, 12, 14


def bars(results, workloads, systems, caption):
    """Each workload has a scale of its own: the longest bar is the dearest system. User time is dark, system time pale."""
    shapes, y = [], 40
    for workload in workloads:
        keys = sorted((key for key in results if key[0] == workload), key=lambda key: (key[1], systems.index(key[2])))
        if not keys:
            continue
        longest = max(results[key].user + results[key].system for key in keys) or 1
        shapes.append(f'<text x="8" y="{y + 4}" font-weight="bold">{escape(workload)}, server µs per operation</text>')
        y += BAR
        for key in keys:
            _, clients, name = key
            user, system = results[key].user, results[key].system
            scale = (WIDTH - LABEL - 80) / longest
            plural = "s" if clients > 1 else ""
            shapes.append(f'<text x="{LABEL - 6}" y="{y + 10}" text-anchor="end">{escape(name)}, {clients} client{plural}</text>')
            for start, length, opacity in ((0, user, 1), (user, system, 0.55)):
                shapes.append(
                    f'<rect x="{LABEL + start * scale:.1f}" y="{y}" width="{length * scale:.1f}" height="{BAR - 2}" '
                    f'fill="{COLOURS[name]}" fill-opacity="{opacity}"/>'
                )
            shapes.append(f'<text x="{LABEL + (user + system) * scale + 4:.1f}" y="{y + 10}">{user + system:,.1f}</text>')
            y += BAR
        y += GAP
    head = f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{y}" font-family="sans-serif" font-size="11">'
    ground = f'<rect width="{WIDTH}" height="{y}" fill="white"/>'
    title = f'<text x="8" y="16" font-size="9">{escape(caption)}</text>'
    return "\n".join([head, ground, title, *shapes, "</svg>", ""])
