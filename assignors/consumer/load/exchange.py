"""Improves a plan by moves and exchanges of whole units, within the limits of members."""

from __future__ import annotations

import numpy as np

from samerack.assignors.consumer.load.units import SLACK, LoadUnits
from samerack.assignors.problem import NOBODY, BoolArray, FloatArray, Int32Array, Int64Array


def mended(units: LoadUnits, member: Int32Array, limit: float) -> Int32Array:
    """Return the plan after moves and exchanges of two units, each of which improves it by the objective."""
    exchange = _Exchanges(units, member, limit)
    exchange.shed()
    exchange.come_near()
    exchange.go_home()
    exchange.even_out()
    exchange.leave_none_out()
    return exchange.member


class _Exchanges:
    """A plan that is improved in place, within a limit of each member's load and a budget of candidates."""

    def __init__(self, units: LoadUnits, member: Int32Array, limit: float) -> None:
        self.member = member
        self._units = units
        self._load = np.bincount(member, weights=units.load, minlength=len(units.capacity))
        self._count = np.bincount(member, weights=units.count, minlength=len(units.capacity)).astype(np.int64)
        self._limit = limit * units.capacity * (1 + SLACK)
        self._budget = 0

    def shed(self) -> None:
        """Take from each member what is beyond its limits, at the least price."""
        stuck = np.zeros(len(self._load), np.bool_)
        self._refill()
        while self._budget > 0:
            beyond = np.where(stuck, 0.0, np.maximum(self._load / self._limit - 1.0, 0.0))
            crowded = np.where(stuck, 0, np.maximum(self._count - self._units.most, 0))
            if crowded.any():
                here = int(crowded.argmax())
            elif beyond.any():
                here = int(beyond.argmax())
            else:
                return
            stuck[here] = not self._relieve(here)

    def come_near(self) -> None:
        """Move units to columns where they cost less, alone or in exchange for another unit.

        The costliest come first. Once a tenth of the budget has found nothing, the rest would find hardly anything.
        """
        self._refill()
        units, patience = self._units, self._budget // 10
        end = self._budget - patience
        here = units.prices[units.price, units.column[self.member]]
        far = np.flatnonzero(here > units.prices.min(axis=1)[units.price])
        for unit in far[np.argsort(-here[far], kind="stable")].tolist():
            if self._budget <= max(end, 0):
                return
            if self._improve(unit, np.flatnonzero(self._gain(unit) > 0)):
                end = self._budget - patience

    def go_home(self) -> None:
        """Give units back to their owners where that costs nothing."""
        self._refill()
        units = self._units
        away = np.flatnonzero((units.home != NOBODY) & (units.home != self.member))
        away = away[units.may_have[units.kind[away], units.home[away]]]
        away = away[self._extra(away, units.home[away]) <= 0]
        for unit in away[np.argsort(-units.kept[away], kind="stable")].tolist():
            if self._budget <= 0:
                return
            if self.member[unit] != units.home[unit]:
                self._improve(unit, units.home[[unit]])

    def even_out(self) -> None:
        """Move units that move anyway from the fullest members to emptier ones of the same group."""
        self._refill()
        units, members = self._units, len(self._load)
        moving = np.flatnonzero((units.home != self.member) & (units.load > 0))
        lightest = np.full(members, np.inf)
        np.minimum.at(lightest, self.member[moving], units.load[moving])
        emptiest = np.zeros(members, np.int64)
        changed = np.unique(units.group)
        while self._budget > 0:
            relative = self._load / units.capacity
            for group in changed.tolist():
                alike = np.flatnonzero(units.group == group)
                open_ = np.where(self._count < units.most, relative, np.inf)[alike]
                emptiest[alike] = alike[open_.argmin()]
            after = (self._load[emptiest] + lightest) / units.capacity[emptiest]
            after[self._count[emptiest] >= units.most[emptiest]] = np.inf
            here = int(np.where(after < relative * (1 - SLACK), relative, -1.0).argmax())
            self._budget -= 10 + len(self.member) // 16 + members
            if after[here] >= relative[here] * (1 - SLACK):
                return
            there = int(emptiest[here])
            mine = np.flatnonzero(self.member == here)
            mine = mine[(units.home[mine] != here) & (units.load[mine] > 0)]
            after = (self._load[there] + units.load[mine]) / units.capacity[there]
            fits = (after < relative[here] * (1 - SLACK)) & (
                self._count[there] + units.count[mine] <= units.most[there]
            )
            lightest[here], changed = np.inf, units.group[:0]
            if fits.any():
                new = np.maximum((self._load[here] - units.load[mine]) / units.capacity[here], after)
                unit = int(mine[np.where(fits, new, np.inf).argmin()])
                self._move(unit, there)
                lightest[here] = units.load[mine[mine != unit]].min(initial=np.inf)
                if units.home[unit] != there:
                    lightest[there] = min(lightest[there], units.load[unit])
                changed = units.group[[here]]

    def leave_none_out(self) -> None:
        """Give a unit that fits to each member that has none and should, from the fullest that has another."""
        units = self._units
        for there in np.flatnonzero(units.wants & (self._count == 0)).tolist():
            spare = np.bincount(self.member, minlength=len(self._load)) > 1
            fits = (units.load <= self._limit[there]) & (units.count <= units.most[there])
            may = np.flatnonzero(fits & spare[self.member] & units.may_have[units.kind, there])
            if len(may):
                same = np.full(len(may), there)
                fullest = -(self._load / units.capacity)[self.member[may]]
                chosen = np.lexsort((fullest, self._moves(may, same), self._extra(may, same)))[0]
                self._move(int(may[chosen]), there)

    def _refill(self) -> None:
        self._budget = 200_000 + 40 * len(self.member)

    def _gain(self, unit: int) -> Int64Array:
        """Return [M] how much less the unit would cost at each member."""
        prices = self._units.prices[self._units.price[unit]]
        gain: Int64Array = prices[self._units.column[self.member[unit]]] - prices[self._units.column]
        return gain

    def _room(self) -> FloatArray:
        return self._limit - self._load

    def _relieve(self, here: int) -> bool:
        """Take load or partitions from the member by moves, else by an exchange; return whether there are any."""
        units = self._units
        mine = np.flatnonzero(self.member == here)
        room = self._room()
        over, crowd = max(0.0, -float(room[here])), int(self._count[here] - units.most[here])
        free = units.most - self._count
        self._budget -= 10 + len(self.member) // 16
        targets = self._roomiest(here)
        fits = (
            (units.load[mine][:, None] <= room[targets])
            & (units.count[mine][:, None] <= free[targets])
            & units.may_have[units.kind[mine]][:, targets]
        )
        self._budget -= fits.size
        relief = np.minimum(units.load[mine], over) if crowd <= 0 else np.ones(len(mine))
        row, column = np.nonzero(fits & (relief > 0)[:, None])
        if len(row):
            self._hand_over(here, mine[row], targets[column], relief[row], over)
            return True
        if crowd > 0:
            return self._pass_on(here)
        return self._trade(here, mine, targets, over) or self._displace(here, mine)

    def _pass_on(self, here: int) -> bool:
        """Move units from member to member until one has room for another; return whether there is such a way.

        There is always one where all units have equal counts: limits of partitions are such that all can be placed. The
        units of a kind have, and no member on the way gets further beyond its limit.
        """
        units = self._units
        kinds, members = units.may_have.shape
        has = np.zeros((members, kinds), np.bool_)
        has[self.member, units.kind] = True
        size = np.zeros(kinds, np.int64)
        size[units.kind] = units.count
        came = {here: (NOBODY, NOBODY)}
        ways = [here]
        for at in ways:
            comes = 0 if at == here else int(size[came[at][1]])
            if self._count[at] + comes <= units.most[at]:
                break
            passes = self._count[at] + comes - size <= max(units.most[at], self._count[at])
            for kind in np.flatnonzero(has[at] & passes).tolist():
                new = [there for there in np.flatnonzero(units.may_have[kind]).tolist() if there not in came]
                came.update(dict.fromkeys(new, (at, kind)))
                ways += new
        else:
            return False
        self._budget -= 10 + len(ways) * kinds
        while at != here:
            before, kind = came[at]
            mine = np.flatnonzero((self.member == before) & (units.kind == kind))
            self._move(int(mine[np.lexsort((units.load[mine], self._extra(mine, np.full(len(mine), at))))[0]]), at)
            at = before
        return True

    def _displace(self, here: int, mine: Int64Array) -> bool:
        """Move the unit that does not fit beside heavier ones to where lighter ones give way; these are shed next."""
        units = self._units
        heavy_first = mine[np.argsort(-units.load[mine], kind="stable")]
        beside = np.cumsum(units.load[heavy_first])
        unit = int(heavy_first[min(int(np.searchsorted(beside, self._limit[here], side="right")), len(mine) - 1)])
        heavy = units.load >= units.load[unit]
        stays = np.bincount(self.member[heavy], weights=units.load[heavy], minlength=len(self._load))
        fits = np.flatnonzero(
            units.may_have[units.kind[unit]]
            & (stays + units.load[unit] <= self._limit)
            & (np.arange(len(stays)) != here)
            & (self._count + units.count[unit] <= units.most)
        )
        self._budget -= 10 + len(self.member) // 4
        if not len(fits):
            return False
        same = np.full(len(fits), unit)
        chosen = np.lexsort((self._load[fits] / self._limit[fits], self._moves(same, fits), self._extra(same, fits)))[0]
        self._move(unit, int(fits[chosen]))
        return True

    def _trade(self, here: int, mine: Int64Array, targets: Int64Array, over: float) -> bool:
        """Exchange a unit of the member for a lighter one of another; return whether there is one."""
        units = self._units
        mine = mine[np.argsort(-units.load[mine], kind="stable")[:200]]
        theirs = np.flatnonzero(np.isin(self.member, targets))
        if len(theirs) > 1_000:
            theirs = theirs[:: len(theirs) // 1_000]
        at = self.member[theirs]
        less = units.load[mine][:, None] - units.load[theirs]
        self._budget -= less.size
        may = (
            (less > over * 1e-6)
            & (less <= self._room()[at])
            & units.may_have[units.kind[mine]][:, at]
            & units.may_have[units.kind[theirs], here]
            & self._counts_fit(mine[:, None], theirs[None, :], here, at)
        )
        row, column = np.nonzero(may)
        if not len(row):
            return False
        relief = np.minimum(less[row, column], over)
        price = self._extra(mine[row], at[column]) + self._extra(theirs[column], np.full(len(column), here))
        moves = self._moves(mine[row], at[column]) + self._moves(theirs[column], np.full(len(column), here))
        chosen = int(np.lexsort((moves, price / relief, relief < over))[0])
        one, other = int(mine[row[chosen]]), int(theirs[column[chosen]])
        self._swap(one, other)
        return True

    def _counts_fit(self, mine: Int64Array, theirs: Int64Array, here: int, at: Int64Array | Int32Array) -> BoolArray:
        more = self._units.count[mine] - self._units.count[theirs]
        fit: BoolArray = (self._count[at] + more <= np.maximum(self._units.most, self._count)[at]) & (
            self._count[here] - more <= max(int(self._units.most[here]), int(self._count[here]))
        )
        return fit

    def _roomiest(self, here: int) -> Int64Array:
        """Return members with the most room: all of a small group, else some of each group of members."""
        room, units = self._room(), self._units
        open_ = (units.most > self._count) & (np.arange(len(room)) != here)
        if len(room) <= 64:
            return np.flatnonzero(open_)
        order = np.argsort(-np.where(open_, room, -np.inf), kind="stable")
        order = order[np.argsort(units.group[order], kind="stable")]
        starts = np.searchsorted(units.group[order], np.arange(int(units.group.max()) + 1))
        return np.unique(np.concatenate([order[start : start + 4] for start in starts.tolist()]))

    def _hand_over(self, here: int, moving: Int64Array, to: Int64Array, relief: FloatArray, over: float) -> None:
        """Make the cheapest of these moves, one after the other, until the member keeps its limits."""
        units = self._units
        price, moves, enough = self._extra(moving, to), self._moves(moving, to), relief >= over
        size = np.where(enough, units.load[moving], -units.load[moving])
        order = np.lexsort((-self._room()[to], size, moves / relief, ~enough, price / relief))
        for unit, there in zip(moving[order].tolist(), to[order].tolist(), strict=True):
            if self._load[here] <= self._limit[here] and self._count[here] <= units.most[here]:
                return
            if (
                self.member[unit] == here
                and self._load[there] + units.load[unit] <= self._limit[there]
                and self._count[there] + units.count[unit] <= units.most[there]
            ):
                self._move(unit, there)

    def _extra(self, moving: Int64Array, to: Int64Array | Int32Array) -> Int64Array:
        """Return how much more each unit costs at its new member."""
        units = self._units
        price: Int64Array = (
            units.prices[units.price[moving], units.column[to]]
            - units.prices[units.price[moving], units.column[self.member[moving]]]
        )
        return price

    def _moves(self, moving: Int64Array, to: Int64Array | Int32Array) -> Int64Array:
        """Return the change of moves if each unit goes to its new member."""
        units = self._units
        home, kept = units.home[moving], units.kept[moving]
        moves: Int64Array = np.where(home == self.member[moving], kept, 0) - np.where(home == to, kept, 0)
        return moves

    def _improve(self, unit: int, members: Int64Array | Int32Array) -> bool:
        """Move a unit to one of the members, alone or for another unit, if that improves price, then moves.

        Return whether it was moved.
        """
        units = self._units
        here = int(self.member[unit])
        members = members[units.may_have[units.kind[unit], members]]
        if not len(members):
            return False
        room = self._room()
        fits = members[
            (units.load[unit] <= room[members]) & (self._count[members] + units.count[unit] <= units.most[members])
        ]
        self._budget -= 10 + len(members)
        same = np.full(len(fits), unit)
        if len(fits):
            price, moves = self._extra(same, fits), self._moves(same, fits)
            chosen = int(np.lexsort((-room[fits], moves, price))[0])
            if (price[chosen], moves[chosen]) < (0, 0):
                self._move(unit, int(fits[chosen]))
                return True
        if len(members) == 1:
            theirs = np.flatnonzero(self.member == members[0])
        else:
            chosen_members = np.zeros(len(room), np.bool_)
            chosen_members[members] = True
            theirs = np.flatnonzero(chosen_members[self.member])
        loads, own = units.load[theirs], float(units.load[unit])
        # loads of both members may rise to the limit, and no further than they are
        least, most = own - max(0.0, float(room[members].max())), own + max(0.0, float(room[here]))
        theirs = theirs[(least * (1 - SLACK) <= loads) & (loads <= most)]
        self._budget -= 10 + len(theirs) + len(self.member) // 16
        more = units.load[unit] - units.load[theirs]
        at = self.member[theirs]
        back = np.full(len(theirs), here)
        may = (
            (more <= np.maximum(room[at], 0.0))
            & units.may_have[units.kind[theirs], here]
            & self._counts_fit(np.array([unit]), theirs, here, at)
        )
        theirs, at, back = theirs[may], at[may], back[may]
        if not len(theirs):
            return False
        same = np.full(len(theirs), unit)
        price = self._extra(same, at) + self._extra(theirs, back)
        moves = self._moves(same, at) + self._moves(theirs, back)
        chosen = int(np.lexsort((np.abs(more[may]), moves, price))[0])
        if (price[chosen], moves[chosen]) >= (0, 0):
            return False
        self._swap(unit, int(theirs[chosen]))
        return True

    def _move(self, unit: int, there: int) -> None:
        here = self.member[unit]
        for at, sign in ((here, -1), (there, 1)):
            self._load[at] += sign * self._units.load[unit]
            self._count[at] += sign * self._units.count[unit]
        self.member[unit] = there

    def _swap(self, one: int, other: int) -> None:
        here, there = int(self.member[one]), int(self.member[other])
        self._move(one, there)
        self._move(other, here)
