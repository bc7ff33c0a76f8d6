"""The names and values that messages and subscriptions of the demonstration share."""

from typing import Final

CAP: Final = "urn:oasis:names:tc:emergency:cap:1.2"
"""Namespace of the Common Alerting Protocol."""

NAMESPACES: Final = {"cap": CAP}

SECTIONS: Final = ("world", "business", "science", "sports", "culture", "weather", "technology", "health")
TOPICS: Final = (
    "elections", "trade", "energy", "climate", "space", "football", "cycling", "opera",
    "housing", "railways", "vaccines", "chips", "fisheries", "tourism", "schools", "budget",
)  # fmt: skip
CITIES: Final = (
    ("Lisbon", "PT"), ("Porto", "PT"), ("Oslo", "NO"), ("Bergen", "NO"), ("Vienna", "AT"), ("Graz", "AT"),
    ("Turin", "IT"), ("Bari", "IT"), ("Lyon", "FR"), ("Nantes", "FR"), ("Leeds", "GB"), ("Cardiff", "GB"),
)  # fmt: skip
AUTHORS: Final = (
    "Ana Sousa", "Ingrid Dahl", "Paul Huber", "Chiara Conti", "Luc Moreau", "Owen Price", "Mei Tanaka", "José Peña",
)  # fmt: skip
LANGUAGES: Final = ("en", "pt", "no", "de", "it", "fr")

EVENTS: Final = ("Flood", "Storm", "Heat", "Wildfire", "Avalanche", "Earthquake", "Power outage", "Water contamination")
SEVERITIES: Final = ("Extreme", "Severe", "Moderate", "Minor")
URGENCIES: Final = ("Immediate", "Expected", "Future", "Past")
STATUSES: Final = ("Actual", "Actual", "Actual", "Exercise", "Test")

CATEGORIES: Final = (
    "books", "maps", "clocks", "cameras", "bicycles", "instruments", "coins", "stamps", "furniture", "toys",
)  # fmt: skip
GOODS: Final = {
    "books": ("Atlas of tides", "Botany primer", "Letters, 3 volumes"),
    "maps": ("Harbour chart", "Railway map of 1911", "Star map"),
    "clocks": ("Mantel clock", "Ship's chronometer", "Kitchen timer"),
    "cameras": ("Folding camera", "Rangefinder", "Light meter"),
    "bicycles": ("Touring bicycle", "Track frame", "Tandem"),
    "instruments": ("Viola", "Concertina", "Oboe"),
    "coins": ("Silver florin", "Copper token", "Set of 12 pence"),
    "stamps": ("Block of four", "Airmail cover", "First-day set"),
    "furniture": ("Oak stool", "Writing desk", "Coat stand"),
    "toys": ("Tin locomotive", "Kite", "Wooden blocks"),
}
BIDDERS: Final = tuple(f"bidder{number:03d}" for number in range(60))
PAYMENTS: Final = ("transfer", "card", "cash")
