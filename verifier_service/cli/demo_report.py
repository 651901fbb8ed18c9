"""The demo's last page, for people."""

from __future__ import annotations

from collections.abc import Mapping

from verifier_service.cli.demo_summary import DemoSummary
from verifier_service.cli.screen import money, number, say, table

BEST = 12


def show(summary: DemoSummary) -> None:
    """Print the whole summary."""
    taken = ", ".join(f"{count} {status}" for status, count in summary.submitted.items())
    say(f"\n{summary.trajectories} trajectories ({taken} lines) in {summary.seconds:.0f} s\n")
    _tiers(summary)
    _rewards(summary)
    _candidates(summary)
    _money(summary)
    _waiting(summary)


def _tiers(summary: DemoSummary) -> None:
    table(
        "What ran (a check that several trajectories share ran once)",
        ("tier", "checks", "failed", "demands", "held", "final there", "CPU s", "credits"),
        (
            (
                tier.tier,
                tier.checks,
                tier.failed,
                tier.demands,
                tier.held,
                tier.settled,
                f"{tier.cpu_s:.1f}",
                money(tier.credits),
            )
            for tier in summary.tiers
        ),
    )


def _rewards(summary: DemoSummary) -> None:
    rewards = summary.rewards
    say(
        f"\nRewards: {rewards['scored']} numbers ({rewards['outcome_zero']} with outcome 0, "
        f"{rewards['outcome_between']} between, {rewards['outcome_one']} with outcome 1), "
        f"{rewards['null']} null; {rewards['final']} are final, the others may still be revised."
    )
    say(f"Refused:     {_counts(summary.refused)}")
    say(f"Null, why:   {_counts(summary.unscored)}")
    say(f"Last word:   {_counts(summary.decisions)}\n")


def _counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {name}" for name, count in counts.items()) or "–"


def _candidates(summary: DemoSummary) -> None:
    table(
        f"Best molecules ({len(summary.candidates[:BEST])} of {len(summary.candidates)} above the floor)",
        ("molecule", "samples", "outcome", "±", "known from", "status", "last decision"),
        (
            (
                one.canonical,
                one.trajectories,
                number(one.outcome),
                "–" if one.sd is None else f"{one.sd:.3f}",
                one.tier,
                one.status,
                (one.decision or "").partition(":")[0],
            )
            for one in summary.candidates[:BEST]
        ),
    )


def _money(summary: DemoSummary) -> None:
    found = summary.comparison
    say("\nMoney (1 credit = 1 US dollar at the default tariff of 0.05 per core-hour)")
    say(f"  spent, {found.measured} calculations at high fidelity: {money(found.spent_credits)} credits")
    if found.mean_cpu_s is None:
        say("  nothing was measured at high fidelity, so there is nothing to compare with")
        return
    say(
        f"  one such calculation per readable trajectory ({found.readable} x {found.mean_cpu_s:.1f} s): "
        f"{money(found.each_trajectory_credits)}"
    )
    say(
        f"  one per different molecule ({found.distinct} x {found.mean_cpu_s:.1f} s): "
        f"{money(found.each_molecule_credits)}"
    )
    say("  (both at the mean of the calculations that ran; answers that are no molecule cost nothing)")
    for account in summary.accounts:
        limit = "no limit" if account["limit"] is None else f"limit {money(account['limit'])}"
        say(
            f"  {account['kind']} budget: {money(account['spent'])} spent, "
            f"{money(account['reserved'])} reserved, {limit}"
        )


def _waiting(summary: DemoSummary) -> None:
    say(f"\n{len(summary.reviews)} cases wait for a person. To see and decide one, in another terminal:")
    say(f"  export VERIFIER_URL={summary.url} VERIFIER_DATA={summary.data}")
    say("  verifier reviews list")
    if summary.reviews:
        say(f"  verifier reviews claim {summary.reviews[0]}")
        say(f"  verifier reviews decide {summary.reviews[0]} accept")
