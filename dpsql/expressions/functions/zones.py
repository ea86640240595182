"""x AT TIME ZONE 'a' AT TIME ZONE 'b': what clocks show in b when those in a show x, for constant zones.

Why  it is total: the engine raises for a zone that it does not know, and these are known to every version of it that is supported
     (tests/laws tries all), and for times near the ends of its calendar, which the guard leaves out. One zone alone would give a
     moment, whose text depends on where a program runs.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping, Sequence

from dpsql.core import domains
from dpsql.core.domains import UNBOUNDED, Domain, Interval
from dpsql.core.errors import error
from dpsql.core.sqltypes import TIMESTAMP, VARCHAR, SqlType
from dpsql.expressions.functions.calendar import YEARS, in_calendar
from dpsql.expressions.functions.record import Constants, Function
from dpsql.expressions.known import Known, Ruled, decided, within
from dpsql.expressions.scalar import Scalar
from dpsql.expressions.temporal import DAY, guarded
from dpsql.sql.nodes import Call, Literal

INSTEAD = "write CAST(d AS TIMESTAMP) AT TIME ZONE 'UTC' AT TIME ZONE 'Europe/Berlin'"
_MOMENT = SqlType("TIMESTAMPTZ")
"""The type of a moment in one zone: no value of a statement has it."""
_MINUTE = DAY // 1440
_FARTHEST = 16 * 60
"""[minutes] Further than any clock ever was from UTC."""
_NEWEST = 0
"""[microseconds] 1970, from when on the table knows how far clocks were."""

_TABLE = """
-720 720 Pacific/ Kwajalein
-720 780 Pacific/ Kanton
-660 -660 Pacific/ Midway Niue Pago_Pago
-660 -540 America/ Adak
-660 -480 America/ Nome
-660 780 Pacific/ Fakaofo
-660 840 Pacific/ Apia
-640 840 Pacific/ Kiritimati
-630 -570 Pacific/ Rarotonga
-600 -600 Pacific/ Honolulu Tahiti
-600 -480 America/ Anchorage
-570 -570 Pacific/ Marquesas
-540 -540 Pacific/ Gambier
-540 -480 America/ Yakutat
-540 -420 America/ Dawson Juneau Metlakatla Sitka
-510 -480 Pacific/ Pitcairn
-480 -420 America/ Dawson_Creek Fort_Nelson Los_Angeles Tijuana Vancouver Whitehorse
-480 -360 America/ Inuvik
-420 -420 America/ Creston Phoenix
-420 -360 America/ Boise Denver Edmonton Hermosillo Mazatlan Swift_Current
-420 -300 America/ Bahia_Banderas Cambridge_Bay Chihuahua Ciudad_Juarez North_Dakota/Beulah North_Dakota/Center
   North_Dakota/New_Salem Ojinaga Pacific/ Easter
-360 -360 America/ Regina
-360 -300 America/ Belize Chicago Costa_Rica El_Salvador Guatemala Indiana/Knox Managua Matamoros Menominee Merida Mexico_City
   Monterrey Rankin_Inlet Resolute Tegucigalpa Winnipeg Pacific/ Galapagos
-360 -240 America/ Cancun Indiana/Petersburg Indiana/Tell_City Indiana/Vincennes Indiana/Winamac Iqaluit Kentucky/Monticello
-300 -300 America/ Atikokan Cayman Panama
-300 -240 America/ Bogota Detroit Eirunepe Grand_Turk Guayaquil Havana Indiana/Indianapolis Indiana/Marengo Indiana/Vevay Jamaica
   Kentucky/Louisville Lima Nassau New_York Port-au-Prince Rio_Branco Santo_Domingo Toronto
-270 -240 America/ Caracas
-240 -240 America/ Anguilla Antigua Aruba Blanc-Sablon Curacao Dominica Grenada Guadeloupe Kralendijk La_Paz Lower_Princes Marigot
   Montserrat Port_of_Spain Puerto_Rico St_Barthelemy St_Kitts St_Lucia St_Thomas St_Vincent Tortola
-240 -180 America/ Asuncion Barbados Boa_Vista Campo_Grande Coyhaique Cuiaba Glace_Bay Guyana Halifax Manaus Martinique Moncton
   Porto_Velho Punta_Arenas Santarem Santiago Thule Atlantic/ Bermuda
-240 -120 America/ Argentina/Catamarca Argentina/Cordoba Argentina/Jujuy Argentina/La_Rioja Argentina/Mendoza
   Argentina/Rio_Gallegos Argentina/Salta Argentina/San_Juan Argentina/San_Luis Argentina/Tucuman Argentina/Ushuaia Goose_Bay
   Miquelon Antarctica/ Palmer Atlantic/ Stanley
-210 -180 America/ Paramaribo
-210 -90 America/ St_Johns
-180 -180 America/ Cayenne
-180 -120 America/ Araguaina Argentina/Buenos_Aires Bahia Belem Fortaleza Maceio Recife Sao_Paulo
-180 -90 America/ Montevideo
-180 -60 America/ Nuuk
-180 0 America/ Danmarkshavn Antarctica/ Rothera
-120 -120 Atlantic/ South_Georgia
-120 -60 America/ Noronha Atlantic/ Cape_Verde
-120 0 America/ Scoresbysund
-60 0 Africa/ Bissau
-60 60 Africa/ El_Aaiun Atlantic/ Azores
-45 0 Africa/ Monrovia
0 0 / GMT UTC Africa/ Abidjan Accra Bamako Banjul Conakry Dakar Freetown Lome Nouakchott Ouagadougou Atlantic/ Reykjavik St_Helena
0 60 Africa/ Casablanca Sao_Tome Atlantic/ Canary Faroe Madeira Europe/ Dublin Guernsey Isle_of_Man Jersey London
0 120 Africa/ Algiers Ceuta Antarctica/ Troll Europe/ Lisbon
0 420 Antarctica/ Vostok
60 60 Africa/ Bangui Brazzaville Douala Kinshasa Lagos Libreville Luanda Malabo Niamey Porto-Novo
60 120 Africa/ Ndjamena Tripoli Tunis Windhoek Europe/ Amsterdam Andorra Belgrade Berlin Bratislava Brussels Budapest Busingen
   Copenhagen Gibraltar Ljubljana Luxembourg Madrid Malta Monaco Oslo Paris Podgorica Prague Rome San_Marino Sarajevo Skopje
   Stockholm Tirane Vaduz Vatican Vienna Warsaw Zagreb Zurich
60 240 Europe/ Vilnius
120 120 Africa/ Blantyre Bujumbura Gaborone Harare Johannesburg Kigali Lubumbashi Lusaka Maputo Maseru Mbabane
120 180 Africa/ Cairo Juba Khartoum Asia/ Amman Beirut Damascus Famagusta Gaza Hebron Jerusalem Nicosia Europe/ Athens Bucharest
   Helsinki Mariehamn Sofia
120 240 Europe/ Chisinau Istanbul Kaliningrad Kyiv Minsk Moscow Riga Simferopol Tallinn
120 300 Europe/ Ulyanovsk
180 180 Africa/ Addis_Ababa Asmara Dar_es_Salaam Djibouti Kampala Mogadishu Nairobi Antarctica/ Syowa Asia/ Aden Kuwait Riyadh
   Indian/ Antananarivo Comoro Mayotte
180 240 Asia/ Baghdad Bahrain Qatar
180 300 Asia/ Baku Tbilisi Yerevan Europe/ Astrakhan Kirov Samara Saratov Volgograd
210 300 Asia/ Tehran
240 240 Asia/ Dubai Muscat Indian/ Mahe Reunion
240 300 Indian/ Mauritius
240 360 Asia/ Aqtau Aqtobe Ashgabat Atyrau Oral Qostanay Yekaterinburg
270 270 Asia/ Kabul
300 300 Indian/ Kerguelen Maldives
300 360 Antarctica/ Mawson Asia/ Karachi Qyzylorda Samarkand Indian/ Chagos
300 420 Antarctica/ Davis Asia/ Almaty Bishkek Dushanbe Omsk Tashkent
330 330 Asia/ Kolkata
330 345 Asia/ Kathmandu
330 360 Asia/ Thimphu
330 390 Asia/ Colombo
360 360 Asia/ Urumqi
360 420 Asia/ Dhaka
360 480 Asia/ Barnaul Hovd Krasnoyarsk Novokuznetsk Novosibirsk Tomsk
390 390 Asia/ Yangon Indian/ Cocos
420 420 Asia/ Bangkok Jakarta Phnom_Penh Vientiane Indian/ Christmas
420 480 Asia/ Ho_Chi_Minh Pontianak
420 540 Asia/ Irkutsk Ulaanbaatar
450 480 Asia/ Kuala_Lumpur Singapore
480 480 Asia/ Brunei Kuching Makassar
480 540 Asia/ Dili Hong_Kong Macau Manila Shanghai Taipei Australia/ Perth
480 600 Asia/ Chita Yakutsk
480 660 Antarctica/ Casey Asia/ Khandyga
510 540 Asia/ Pyongyang
525 585 Australia/ Eucla
540 540 Asia/ Jayapura Tokyo Pacific/ Palau
540 600 Asia/ Seoul
540 660 Asia/ Vladivostok
540 720 Asia/ Ust-Nera
570 570 Australia/ Darwin
570 630 Australia/ Adelaide Broken_Hill
600 600 Antarctica/ DumontDUrville Pacific/ Chuuk Port_Moresby
600 660 Antarctica/ Macquarie Australia/ Brisbane Hobart Lindeman Melbourne Sydney Pacific/ Bougainville Guam Saipan
600 690 Australia/ Lord_Howe
600 720 Asia/ Magadan Sakhalin Srednekolymsk
660 660 Pacific/ Guadalcanal Pohnpei
660 720 Pacific/ Efate Kosrae Noumea
660 750 Pacific/ Norfolk
660 780 Asia/ Kamchatka
660 840 Asia/ Anadyr
690 720 Pacific/ Nauru
720 720 Pacific/ Funafuti Majuro Tarawa Wake Wallis
720 780 Antarctica/ McMurdo Pacific/ Auckland Fiji
765 825 Pacific/ Chatham
780 840 Pacific/ Tongatapu
"""
"""Names by area, after the least and the most minutes that their clocks were ahead of UTC since 1970."""


def _read(table: str) -> Iterator[tuple[str, tuple[int, int]]]:
    for entry in re.split(r"\n(?! )", table.strip()):
        least, most, *names = entry.split()
        area = ""
        for name in names:
            if name.endswith("/"):
                area = name.removeprefix("/")
            else:
                yield area + name, (int(least), int(most))


OFFSETS: Mapping[str, tuple[int, int]] = dict(_read(_TABLE))
"""[minutes] By zone how far its clocks are ahead of UTC, at least and at most, since 1970."""


def at_time_zone(source: Scalar, target: Scalar, when: Scalar) -> Scalar:
    """`when` on the clocks of `target`, given on those of `source`."""
    if when.sqltype != TIMESTAMP:
        raise error(106, f"AT TIME ZONE needs a timestamp without a zone, not {when.sqltype}", hint=INSTEAD)
    zones = [str(source.value), str(target.value)]
    tree = guarded(when, _in(zones[1], _in(zones[0], when)))
    bounds = domains.hull(when.domain)
    domain: Domain = UNBOUNDED
    if bounds is not None:
        known = bounds.lower >= _NEWEST
        (a, b), (c, d) = (OFFSETS[zone] if known else (-_FARTHEST, _FARTHEST) for zone in zones)
        moved = Interval(bounds.lower + (c - b) * _MINUTE, bounds.upper + (d - a) * _MINUTE)
        domain = domains.intersect(moved, YEARS[TIMESTAMP])
    nullable = when.nullable or bounds is None
    return Scalar("at time zone", (source, target, when), tree, TIMESTAMP, domain, None, nullable)


def _in(zone: str, what: Scalar | Call) -> Call:
    return Call("timezone", (Literal(zone, VARCHAR), what.tree if isinstance(what, Scalar) else what))


def _moved(args: Sequence[Known]) -> Ruled | None:
    """TIMEZONE('zone', x): of a clock's time a moment, of a moment a clock's time, at most 16 hours off."""
    if len(args) != 2 or args[0].word not in OFFSETS or args[1].sqltype not in (TIMESTAMP, _MOMENT):
        return None
    a, limits = args[1], None
    if a.limits is not None:
        limits = Interval(a.limits.lower - _FARTHEST * _MINUTE, a.limits.upper + _FARTHEST * _MINUTE)
    wide = Interval(YEARS[TIMESTAMP].lower - DAY, YEARS[TIMESTAMP].upper + DAY)
    sure = in_calendar(a) if a.sqltype == TIMESTAMP else within(a.limits, wide)
    return decided(Known(_MOMENT if a.sqltype == TIMESTAMP else TIMESTAMP, limits, a.null), sure)


def _check(constants: Constants) -> None:
    for zone in constants[:2]:
        if zone not in OFFSETS:
            known = [*OFFSETS, *(name.rpartition("/")[2] for name in OFFSETS)]
            near = difflib.get_close_matches(zone, known, 1) if isinstance(zone, str) else []
            name = next((name for name in OFFSETS if near and name.endswith(near[0])), "Europe/Berlin")
            raise error(102, "a time zone must be a constant name that is known", hint=f"write AT TIME ZONE '{name}'")


FUNCTIONS = (
    Function(("convert_timezone",), "CONVERT_TIMEZONE('UTC', 'Europe/Berlin', CAST(d AS TIMESTAMP))",
        "TIMESTAMP, as AT TIME ZONE 'UTC' AT TIME ZONE 'Europe/Berlin'", ("constant", "constant", "value"),
        at_time_zone, {"timezone": _moved}, check=_check, tried=True),
)  # fmt: skip
