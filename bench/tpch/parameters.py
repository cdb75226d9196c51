"""Other parameters for the queries, drawn as the specification's clauses 2.4.1.3 to 2.4.22.3 say.

The files hold the parameters that the specification validates with; `substitute` exchanges them. Few rows answer a query of a
small database, so quantities of Q18 begin lower than they should.
"""

import re

REGIONS = {
    "AFRICA": ["ALGERIA", "ETHIOPIA", "KENYA", "MOROCCO", "MOZAMBIQUE"],
    "AMERICA": ["ARGENTINA", "BRAZIL", "CANADA", "PERU", "UNITED STATES"],
    "ASIA": ["INDIA", "INDONESIA", "JAPAN", "CHINA", "VIETNAM"],
    "EUROPE": ["FRANCE", "GERMANY", "ROMANIA", "RUSSIA", "UNITED KINGDOM"],
    "MIDDLE EAST": ["EGYPT", "IRAN", "IRAQ", "JORDAN", "SAUDI ARABIA"],
}
NATIONS = [nation for nations in REGIONS.values() for nation in nations]
TYPES = [
    ["STANDARD", "SMALL", "MEDIUM", "LARGE", "ECONOMY", "PROMO"],
    ["ANODIZED", "BURNISHED", "PLATED", "POLISHED", "BRUSHED"],
    ["TIN", "NICKEL", "BRASS", "STEEL", "COPPER"],
]
CONTAINERS = [["SM", "LG", "MED", "JUMBO", "WRAP"], ["CASE", "BOX", "BAG", "JAR", "PKG", "PACK", "CAN", "DRUM"]]
SEGMENTS = ["AUTOMOBILE", "BUILDING", "FURNITURE", "MACHINERY", "HOUSEHOLD"]
MODES = ["REG AIR", "AIR", "RAIL", "SHIP", "TRUCK", "MAIL", "FOB"]
WORDS = [["special", "pending", "unusual", "express"], ["packages", "requests", "accounts", "deposits"]]
COLORS = [
    "almond", "antique", "azure", "blue", "chocolate", "coral", "cyan", "forest", "frosted", "green", "honeydew", "ivory",
    "lemon", "magenta", "navy", "orange", "peach", "plum", "red", "salmon", "sky", "tan", "violet", "wheat", "yellow",
]


def month(random, first, last):
    """The first day of a month between two of them, each given as year * 12 + month - 1."""
    number = random.randint(first[0] * 12 + first[1] - 1, last[0] * 12 + last[1] - 1)
    return f"{number // 12}-{number % 12 + 1:02}-01"


def words(random, lists):
    """A word of each list."""
    return " ".join(random.choice(choices) for choices in lists)


def brand(random):
    """A brand."""
    return f"Brand#{random.randint(1, 5)}{random.randint(1, 5)}"


def changes(number, random):
    """What is to be exchanged in a query: the text in the file, and what stands there instead."""
    year = f"{random.randint(1993, 1997)}-01-01"
    nation, other = random.sample(NATIONS, 2)
    region = next(name for name, nations in REGIONS.items() if nation in nations)
    match number:
        case 1:
            return {"'90'": f"'{random.randint(60, 120)}'"}
        case 2:
            return {"= 15": f"= {random.randint(1, 50)}", "BRASS": random.choice(TYPES[2]), "EUROPE": region}
        case 3:
            return {"BUILDING": random.choice(SEGMENTS), "1995-03-15": f"1995-03-{random.randint(1, 31):02}"}
        case 4:
            return {"1993-07-01": month(random, (1993, 1), (1997, 10))}
        case 5:
            return {"ASIA": region, "1994-01-01": year}
        case 6:
            discount, quantity = random.randint(2, 9), random.randint(24, 25)
            return {"1994-01-01": year, "0.06": f"0.0{discount}", "< 24": f"< {quantity}"}
        case 7:
            return {"FRANCE": nation, "GERMANY": other}
        case 8:
            return {"BRAZIL": nation, "AMERICA": region, "ECONOMY ANODIZED STEEL": words(random, TYPES)}
        case 9:
            return {"green": random.choice(COLORS)}
        case 10:
            return {"1993-10-01": month(random, (1993, 2), (1995, 1))}
        case 11 | 21:
            return {"GERMANY" if number == 11 else "SAUDI ARABIA": nation}
        case 12:
            one, two = random.sample(MODES, 2)
            return {"MAIL": one, "SHIP": two, "1994-01-01": year}
        case 13:
            return {"special": random.choice(WORDS[0]), "requests": random.choice(WORDS[1])}
        case 14:
            return {"1995-09-01": month(random, (1993, 1), (1997, 12))}
        case 15:
            return {"1996-01-01": month(random, (1993, 1), (1997, 10))}
        case 16:
            sizes = ", ".join(map(str, random.sample(range(1, 51), 8)))
            kind = words(random, TYPES[:2])
            return {"Brand#45": brand(random), "MEDIUM POLISHED": kind, "49, 14, 23, 45, 19, 3, 36, 9": sizes}
        case 17:
            return {"Brand#23": brand(random), "MED BOX": words(random, CONTAINERS)}
        case 18:
            return {"> 300": f"> {random.randint(200, 315)}"}
        case 19:
            low = [random.randint(*span) for span in ((1, 10), (10, 20), (20, 30))]
            quantities = {f">= {old} AND l_quantity <= {old} + 10": f">= {new} AND l_quantity <= {new} + 10"
                          for old, new in zip((1, 10, 20), low)}
            return {"Brand#12": brand(random), "Brand#23": brand(random), "Brand#34": brand(random), **quantities}
        case 20:
            return {"forest": random.choice(COLORS), "1994-01-01": year, "CANADA": nation}
        case 22:
            codes = ", ".join(f"'{code}'" for code in random.sample(range(10, 35), 7))
            return {"'13', '31', '23', '29', '30', '18', '17'": codes}
    raise ValueError(f"there is no Q{number}")


def substitute(number, text, random):
    """The query with other parameters."""
    exchanged = changes(number, random)
    missing = [old for old in exchanged if old not in text]
    if missing:
        raise ValueError(f"Q{number} does not hold {missing}")
    # In one pass: what was put in is not exchanged again.
    return re.sub("|".join(map(re.escape, exchanged)), lambda match: exchanged[match[0]], text)
