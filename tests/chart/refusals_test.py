"""Wrong values are refused, by a message that names the value and says what to do."""

import unittest

import chart

SECURE = {"tls": {"enabled": True, "existingSecret": "s"}}


def insecure(**values):
    return {"insecure": True, **values}


# (what is wrong, values, what the message must say)
REFUSED = [
    ("no choice of protection", {}, "tls.enabled=true with .* or insecure=true"),
    ("both protections", {"insecure": True, **SECURE}, "insecure and tls.enabled are both true"),
    ("a misspelt name", insecure(shard={"replicacount": 3}), "replicacount"),
    ("a misspelt name at the top", insecure(shards={"replicaCount": 3}), "shards"),
    ("a misspelt name deep inside", insecure(shard={"persistence": {"sice": "1Gi"}}), "sice"),
    ("a size without a unit that exists", insecure(shard={"persistence": {"size": "20GB"}}), "size"),
    ("no shards", insecure(shard={"replicaCount": 0}), "replicaCount"),
    ("a number as text", insecure(shard={"replicaCount": "3"}), "replicaCount"),
    ("a mode that does not exist", insecure(shard={"durability": "sync"}), "durability"),
    ("a port that does not exist", insecure(shard={"service": {"ports": {"grpc": 70100}}}), "grpc"),
    ("one port for two uses", insecure(shard={"service": {"ports": {"grpc": 7011}}}), "grpc and admin are both 7011"),
    ("two coordinators", insecure(coordinator={"replicaCount": 2}), "replicaCount"),
    ("names of other charts", insecure(replicaCount=3), "replicaCount is not a value of this chart: set shard.replicaCount"),
    ("names of other charts, volumes", insecure(persistence={"size": "1Gi"}), "set shard.persistence or coordinator.persistence"),
    ("an autoscaler of the shards", insecure(shard={"autoscaling": {"enabled": True}}), "shard.autoscaling: shards cannot be scaled automatically"),
    ("an autoscaler at the top", insecure(autoscaling={"maxReplicas": 9}), "autoscaling: shards cannot be scaled automatically"),
    ("an autoscaler by another name", insecure(hpa={"enabled": True}), "hpa: shards cannot be scaled automatically"),
    ("TLS without a secret", {"tls": {"enabled": True}}, "no secret holds the certificate of the shard: set tls.existingSecrets.shard"),
    (
        "TLS without a secret for helm test",
        {"tls": {"enabled": True, "existingSecrets": {"shard": "a", "coordinator": "b", "trainer": "c"}}},
        "certificate of the operator",
    ),
    ("a secret without TLS", insecure(tls={"existingSecret": "s"}), "tls.enabled is false: set tls.enabled=true"),
    (
        "secrets and cert-manager",
        {"tls": {"enabled": True, "existingSecret": "s", "certManager": {"enabled": True, "issuerRef": {"name": "i"}}}},
        "makes the secrets itself",
    ),
    ("cert-manager without an issuer", {"tls": {"enabled": True, "certManager": {"enabled": True}}}, "tls.certManager.issuerRef.name is empty"),
    ("lists of revoked certificates without TLS", insecure(tls={"crl": {"existingSecret": "c"}}), "tls.crl is set, but tls.enabled is false"),
    (
        "two places for lists of revoked certificates",
        {"tls": {**SECURE["tls"], "crl": {"existingSecret": "c", "configMap": "d"}}},
        r"tls.crl.existingSecret \(c\) and tls.crl.configMap \(d\) are both set",
    ),
    ("a misspelt place of those lists", {"tls": {**SECURE["tls"], "crl": {"secret": "c"}}}, "secret"),
    (
        "a directory of lists by a flag",
        {**SECURE, "shard": {"extraArgs": ["--tls-crl-dir=/x"]}},
        "shard.extraArgs: --tls-crl-dir is set by the chart",
    ),
    ("an unknown authorization", {"tls": {**SECURE["tls"], "authorization": "all"}}, "authorization"),
    ("a log without a volume", insecure(shard={"durability": "log", "persistence": {"enabled": False}}), 'durability is "log", which needs a volume'),
    ("an interval that is no time", insecure(checkpoint={"interval": "often"}), "interval"),
    ("a setting that a flag overrules", insecure(shard={"config": {"data-dir": "/x"}}), "shard.config.data-dir is set by the chart"),
    ("a flag given twice", insecure(shard={"extraArgs": ["--listen=0.0.0.0:1"]}), "shard.extraArgs: --listen is set by the chart"),
    ("a flag given twice, coordinator", insecure(coordinator={"extraArgs": ["--shards=9"]}), "coordinator.extraArgs: --shards"),
    ("a word that is no flag", insecure(shard={"extraArgs": ["verbose"]}), "extraArgs"),
    (
        "a grace period below the drain",
        insecure(shard={"terminationGracePeriodSeconds": 30}),
        "shard.terminationGracePeriodSeconds is 30, less than the 310 s",
    ),
    ("a grace period of zero", insecure(shard={"terminationGracePeriodSeconds": 0}), "terminationGracePeriodSeconds"),
    ("trainers without a run", insecure(trainer={"enabled": True, "data": "/d"}), "trainer.job is empty"),
    ("trainers without data", insecure(trainer={"enabled": True, "job": "a"}), "trainer.data is empty"),
    ("data at a relative path", insecure(trainer={"enabled": True, "job": "a", "data": "train.txt"}), "data"),
    (
        "two monitors",
        insecure(metrics={"serviceMonitor": {"enabled": True}, "podMonitor": {"enabled": True}}),
        "every server would be scraped twice",
    ),
    ("a reshard from the same number", insecure(shard={"replicaCount": 2, "reshardFrom": 2}), "both 2"),
    ("a memory limit that cannot be read", insecure(shard={"resources": {"limits": {"memory": "4Pi"}}}), "set shard.memoryBudget"),
    ("a memory limit that is too small", insecure(shard={"resources": {"limits": {"memory": "2Gi"}}}), "of 2048 MiB leaves -77 MiB for rows"),
    ("an image digest that is none", insecure(image={"digest": "sha256:12"}), "digest"),
    ("a service type that does not exist", insecure(coordinator={"service": {"type": "Ingress"}}), "type"),
]


class RefusedTest(unittest.TestCase):
    def test_every_bad_value_is_refused_with_a_message(self):
        for what, values, message in REFUSED:
            with self.subTest(what):
                with self.assertRaises(chart.RenderError) as caught:
                    chart.render(overrides=values)
                self.assertRegex(str(caught.exception), message)

    def test_the_neighbours_of_bad_values_are_accepted(self):
        accepted = [
            insecure(), SECURE,
            insecure(shard={"replicaCount": 1}),
            insecure(shard={"terminationGracePeriodSeconds": 310}),
            insecure(shard={"replicaCount": 4, "reshardFrom": 2}),
            insecure(checkpoint={"interval": "off"}),
            insecure(tests={"enabled": False}, trainer={"enabled": True, "job": "a", "data": "/d"}),
            {"tls": {"enabled": True, "existingSecrets": {"shard": "a", "coordinator": "b"}}, "tests": {"enabled": False}},
            insecure(**{"global": {"another": {"chart": 1}}}),
        ]
        for values in accepted:
            with self.subTest(values=values):
                chart.render(overrides=values)


def existing(shards=2, size="20Gi", annotated=True, replicas=None):
    """The StatefulSet of an installed release, as the API server gives it."""
    claims = [{"metadata": {"name": "data"}, "spec": {"resources": {"requests": {"storage": size}}}}] if size else None
    return {
        "apiVersion": "apps/v1", "kind": "StatefulSet",
        "metadata": {
            "name": "rel-dslide-shard", "namespace": chart.NAMESPACE,
            "annotations": {"dslide/shards": str(shards)} if annotated else None,
        },
        "spec": {"replicas": shards if replicas is None else replicas, "volumeClaimTemplates": claims},
    }


@unittest.skipUnless(chart.helm_program(), "the renderer in tests/chart/renderer asks no cluster, and helm is not here")
class UpgradeTest(unittest.TestCase):
    """What cannot be changed in a release that runs."""

    def upgrade(self, found, **shard):
        return chart.upgrade([found], insecure(shard=shard))

    def assert_refused(self, message, found, **shard):
        with self.assertRaises(chart.RenderError) as caught:
            self.upgrade(found, **shard)
        self.assertRegex(str(caught.exception), message)

    def test_the_number_of_shards_cannot_be_changed_by_an_upgrade_alone(self):
        self.assert_refused("would change from 2 to 3: .* give shard.reshardFrom=2 too", existing(2), replicaCount=3)
        self.assert_refused("would change from 2 to 3", existing(2), replicaCount=3, reshardFrom=4)
        self.assert_refused("would change from 4 to 2", existing(4, annotated=False), replicaCount=2)

    def test_a_set_that_is_scaled_to_nothing_keeps_its_number(self):
        self.assert_refused("would change from 2 to 3", existing(2, replicas=0), replicaCount=3)
        self.upgrade(existing(2, replicas=0), replicaCount=2)

    def test_the_number_of_shards_can_be_changed_by_naming_the_old_one(self):
        objects = self.upgrade(existing(2), replicaCount=3, reshardFrom=2)
        self.assertEqual(objects.shards()["spec"]["replicas"], 3)

    def test_an_upgrade_that_changes_nothing_of_it_is_accepted(self):
        self.upgrade(existing(2))
        self.upgrade(existing(3), replicaCount=3, reshardFrom=2)

    def test_a_larger_volume_needs_its_steps(self):
        self.assert_refused("would change from 20Gi to 40Gi: .* --cascade=orphan", existing(2), persistence={"size": "40Gi"})

    def test_volumes_cannot_be_turned_on_or_off_in_place(self):
        self.assert_refused("persistence.enabled cannot be changed", existing(2), persistence={"enabled": False})
        self.assert_refused("persistence.enabled cannot be changed", existing(2, size=None))


if __name__ == "__main__":
    chart.renderer()
    chart.run_tests()
