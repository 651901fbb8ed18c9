"""Submit three answers, wait for simulation, read the rewards. Needs a running `verifier serve`."""

from verifier_service.client import Client, Wait

PROBLEM = {"prompt": "Propose a molecule with a Kohn-Sham gap between 4 and 5 eV. Answer with one SMILES."}
answers = {"a": "CC=CC=O", "b": "c1ccccc1", "c": "C1=CC"}
samples = [
    {"id": name, "group": "g", "ladder": "organic-gap", "problem": PROBLEM, "answer": answer}
    for name, answer in answers.items()
]

with Client() as client:
    response = client.submit("quickstart", samples, wait=Wait("simulation", seconds=60))
    for result in response.results:
        record = result.reward
        if record is None or record.reward is None:
            print(result.id, "has no reward:", record.reason if record else result.error)
        else:
            print(result.id, f"{record.reward:.2f} ± {(record.variance or 0) ** 0.5:.2f}", record.status)
    print([member.advantage for member in client.group("quickstart", "g", estimator="rloo").members])
