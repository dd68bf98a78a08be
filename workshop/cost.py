"""Instance-hours, cost, quota and turns for a class, before anybody has launched anything.

Question  what does a route cost for N people, on one shared instance or one each, and what has to
          be asked of AWS, how long before?
Answer    estimate(...) -> Estimate, whose repr says how each figure comes about; main(arguments)
Assumes   instances run for a class day's hours and are stopped overnight; on demand, one region
Ignores   disks, public addresses, taxes, credits; whether an instance is free on the day
"""

import argparse
import re
from dataclasses import dataclass

from roofline import machine
from roofline.units import mebi

from . import ROOT, Stop, timetable

# Dollars an hour: on demand, Linux, us-west-2, as the table of the source has them.
PRICES = {"inf2.xlarge": 0.7582, "inf2.8xlarge": 1.96786, "inf2.24xlarge": 6.49063,
          "inf2.48xlarge": 12.98127, "trn1.2xlarge": 1.34375, "trn1.32xlarge": 21.5}
PRICED = ("published: on demand, Linux, us-west-2, in a table of 26 August 2026 that was copied "
          "from Vantage\n  https://github.com/tsaol/aws-gpu/tree/"
          "299375be7a2b940b53b3d80ec79fd66ee688f4fa/data")
TODAY = ("https://aws.amazon.com/ec2/pricing/on-demand/, for reserved days "
         "https://aws.amazon.com/ec2/capacityblocks/pricing/")
KNOWN = [name for name in machine.INSTANCES if re.match(r"(inf2|trn1|trn2)\.", name)]
QUOTAS = {"trn": ("Running On-Demand Trn instances", "L-2C3B7624"),
          "inf": ("Running On-Demand Inf instances", "L-1945791B")}
LEAD = ("AWS's pages name no time, and a request may open a support case. One company reports 24 "
        "to 72 hours\n  (https://www.vigilare.cloud/blog/aws-service-quotas-monitoring/). Our "
        "advice: ask two weeks before, and launch one\n  instance the day before: a quota is no "
        "promise that one is free")
CAPTURES = 40  # of Day 4, for each who runs all of it: "some forty captures", its page says


@dataclass(frozen=True)
class Estimate:
    """hours   of each class day on which instances run: (title, hours, whether a page measures)"""

    route: timetable.Route
    people: int
    instance: str
    instances: int
    hours: tuple[tuple[str, float, bool], ...]
    extra: float
    price: float | None
    given: bool  # the price came with the command
    vcpus: int | None
    captures: int
    seconds: float | None

    @property
    def instance_hours(self) -> float:
        return self.instances * (sum(h for _, h, _ in self.hours) + self.extra * len(self.hours))

    @property
    def dollars(self) -> float | None:
        return None if self.price is None else self.instance_hours * self.price

    @property
    def cores(self) -> int:
        """Cores of one instance that a capture can have: logical ones where two are joined."""
        facts = machine.INSTANCES[self.instance].facts
        return int(facts["cores"].value) // (2 if self.instance.startswith("trn2") else 1)

    @property
    def turns(self) -> float:
        """Captures of Day 4 that each core makes, one after the other."""
        return self.people * self.captures / (self.instances * self.cores)

    def __repr__(self) -> str:
        if not self.hours:
            return (f"{self.route.title} for {self.people}: no page of this route measures on a "
                    "device.\nInstance-hours: 0. Laptops, or a hub on any computer")
        how = "shared" if self.instances < self.people else "one each"
        lines = [f"{self.route.title} for {self.people}: {self.instances} x {self.instance}, {how}",
                 ""]
        lines += [f"  {hours:5.2f} h  {title}{', a page measures' if measures else ''}"
                  for title, hours, measures in self.hours]
        if self.extra:
            lines.append(f"  {self.extra:5.2f} h  before and after, on each of these days")
        lines += ["", f"Instance-hours: {self.instance_hours:.2f}, {self.instances} x "
                  f"{self.instance_hours / self.instances:.2f} h", *self._cost(), *self._quota(),
                  *self._host(), f"Lead time: {LEAD}."]
        return "\n".join(lines + self._turns())

    def _cost(self) -> list[str]:
        if self.price is None or self.dollars is None:
            return [f"Cost: no price of {self.instance} is known here. Give yours: --price DOLLARS "
                    f"an hour, from\n  {TODAY}"]
        hours, source = self.instance_hours, "as given" if self.given else PRICED
        return [f"Cost: {hours:.2f} h x ${self.price:g} = ${self.dollars:.2f}; {source}",
                f"  Today's, and other regions: {TODAY}",
                "  Not in it: disks (for as long as they exist), public addresses, and what runs "
                "before and after class (--extra)"]

    def _quota(self) -> list[str]:
        name, code = QUOTAS[self.instance[:3]]
        if self.vcpus is None:
            return [f"Quota: {name}, {code}, in your region. vCPUs of one {self.instance}: no page "
                    "of ours has them; ask\n  aws ec2 describe-instance-types --instance-types "
                    f"{self.instance} --query 'InstanceTypes[].VCpuInfo.DefaultVCpus'\n"
                    "  and give them: --vcpus N"]
        return [f"Quota: {self.instances * self.vcpus} vCPUs, {self.instances} x {self.vcpus}, of "
                f"{name} ({code}), in your region. A new account has 0"]

    def _turns(self) -> list[str]:
        if "day4/measured_roofs" not in {s.section.page for s in self.route.taken if s.section}:
            return []
        if any(s.how == "work" and s.section and s.section.page == "day4/measured_roofs"
               for s in self.route.taken):
            took = (". How long one takes, nobody has\n  measured for this course: time one, and "
                    "give it: --capture-seconds S" if self.seconds is None else
                    f":\n  {self.turns * self.seconds / 3600:.1f} h at {self.seconds:g} s each")
            return [f"Turns: if each runs all of Day 4, {self.captures} captures, each of the "
                    f"{self.instances * self.cores} cores makes {self.turns:g}, one after the "
                    f"other{took}\n  Fewer: make them once, and let all read them (catch-up "
                    "--recordings)"]
        return ["Turns: Day 4 is shown, so the instructor alone captures. On Day 7 a kernel of "
                "one's own needs two\n  captures, before and after its change"]

    def _host(self) -> list[str]:
        """What a shared instance has for the kernels of all."""
        facts = machine.INSTANCES[self.instance].facts
        if self.instances == self.people or "host_memory_bytes" not in facts:
            return []
        memory = facts["host_memory_bytes"].value
        return [f"Host: {mebi(memory)} of memory for {self.people} notebooks, "
                f"{mebi(memory / self.people)} for each"]


def measuring(page: str) -> bool:
    """Whether a page looks for a NeuronCore in its first cell, to measure on it."""
    return bool(re.search(r"device\.probe\(\)", (ROOT / f"{page}.ipynb").read_text("utf-8")))


def estimate(route: str, people: int, instance: str, *, each: bool = False, extra: float = 0,
             price: float | None = None, vcpus: int | None = None, captures: int = CAPTURES,
             seconds: float | None = None) -> Estimate:
    """What a class needs.

    each   one instance a person, on the days on which a page measures; else one for all, which
           also serves the hub on every class day
    extra  hours before and after class on each of these days
    """
    if people < 1:
        raise Stop(f"cost: --class: expected at least 1, got {people}")
    for option, value in (("--price", price), ("--extra", extra), ("--capture-seconds", seconds),
                          ("--vcpus", vcpus), ("--captures", captures)):
        if value is not None and not 0 <= value < 1e6:
            raise Stop(f"cost: {option}: expected a number from 0 up, got {value}")
    if instance not in KNOWN:
        raise Stop(f"cost: no instance is called {instance!r}; known: {', '.join(KNOWN)}")
    plan = timetable.route(route)
    hours = []
    for day in plan.days:
        measures = any(slot.section and measuring(slot.section.page) for slot in day.slots)
        hours.append((day.title, (day.until - day.start) / 60, measures))
    needed = [day for day in hours if day[2]]
    facts = machine.INSTANCES[instance].facts
    known_vcpus = int(facts["vcpus"].value) if "vcpus" in facts else None
    return Estimate(plan, people, instance, people if each else 1,
                    tuple(needed if each or not needed else hours), extra,
                    PRICES.get(instance) if price is None else price, price is not None,
                    known_vcpus if vcpus is None else vcpus, captures, seconds)


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(
        prog="python3 course.py workshop cost",
        description="Instance-hours, cost, quota and turns for a class.")
    made.add_argument("--class", dest="people", type=int, required=True, metavar="N",
                      help="how many people")
    made.add_argument("--route", required=True, choices=timetable.names())
    made.add_argument("--instance", default="trn1.2xlarge", metavar="TYPE",
                      help="EC2 instance type (trn1.2xlarge)")
    made.add_argument("--each", action="store_true",
                      help="an instance for each; without it, one that all share")
    made.add_argument("--price", type=float, metavar="DOLLARS",
                      help="of one instance for an hour, in your region, today")
    made.add_argument("--extra", type=float, default=0, metavar="HOURS",
                      help="before and after class, each day (0)")
    made.add_argument("--vcpus", type=int, metavar="N", help="of one instance")
    made.add_argument("--captures", type=int, default=CAPTURES, metavar="N",
                      help=f"of Day 4, for each ({CAPTURES})")
    made.add_argument("--capture-seconds", dest="seconds", type=float, metavar="S",
                      help="how long one capture took you")
    return made


def main(arguments: list[str]) -> int:
    options = parser().parse_args(arguments)
    print(estimate(options.route, options.people, options.instance, each=options.each,
                   extra=options.extra, price=options.price, vcpus=options.vcpus,
                   captures=options.captures, seconds=options.seconds))
    return 0
